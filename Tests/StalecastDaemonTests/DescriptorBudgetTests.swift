import StalecastDaemon
import Testing

@Suite struct DescriptorBudgetTests {
    /// The daemon's own files with all parts, and connections that Edge and Control are refusing.
    private static let own = 120, refused = 48
    private static let all = DescriptorBudget.Parts(sources: 10_000, hasHook: true, issuers: 64)

    @Test(arguments: [384, 400, 600, 1_024, 4_096, 20_000, 65_536, 1_048_576] as [UInt64])
    func theSharesLeaveRoomForTheDaemonsOwnFiles(limit: UInt64) throws {
        for parts in [DescriptorBudget.Parts(), Self.all] {
            let budget = try DescriptorBudget(limit: limit, for: parts)
            let webhooks = 2 * budget.outboundRequests + budget.keptConnections + budget.lookups
            let asked = [budget.sources, budget.hook, budget.issuers].reduce(0) { $0 + $1.sockets }
            #expect(budget.edge + budget.control + webhooks + asked + Self.own + Self.refused < limit)
            #expect(min(budget.edge, budget.control, budget.outboundRequests, budget.keptConnections) > 0)
        }
    }

    @Test func partsThatAreNotConfiguredHaveNoShare() throws {
        let budget = try DescriptorBudget(limit: 1_024)
        #expect([budget.sources, budget.hook, budget.issuers].allSatisfy { $0.sockets == 0 })
    }

    @Test(arguments: [384, 1_024, 1_048_576] as [UInt64])
    func eachPartThatIsConfiguredCanAsk(limit: UInt64) throws {
        let one = DescriptorBudget.Parts(sources: 1, hasHook: true, issuers: 1)
        for parts in [one, Self.all] {
            let budget = try DescriptorBudget(limit: limit, for: parts)
            for share in [budget.sources, budget.hook, budget.issuers] {
                #expect(share.requests > 0 && share.kept > 0 && share.lookups > 0)
            }
            // A source looks beside its stream, which stays open, and may need a token for that.
            #expect(budget.sources.requests >= 3)
        }
    }

    @Test func aLimitThatChangesLaterIsEdgesAndControls() throws {
        let budget = try DescriptorBudget(limit: 1_024)
        #expect(budget.edge(under: 1_024) == budget.edge && budget.control(under: 1_024) == budget.control)
        #expect(budget.edge(under: 928) == budget.edge - 84 && budget.control(under: 928) == budget.control - 12)
        #expect(budget.edge(under: 2_024) == budget.edge + 1_000 && budget.control(under: 2_024) == budget.control)
        #expect(budget.control(under: 50) == 24)
        #expect(budget.edge(under: 50) == 0)
        #expect(budget.edge(under: .max) > 1_000_000_000)
    }

    @Test func mostDescriptorsAreStreams() throws {
        #expect(try DescriptorBudget(limit: 20_000).edge == 17_076)
        #expect(try DescriptorBudget(limit: 1_048_576).edge > 1_000_000)
        #expect(try DescriptorBudget(limit: 400).edge >= 100)
    }

    @Test(arguments: [0, 1, 256, 383] as [UInt64])
    func fewerThanTheLeastAreRefusedWithWhatToDo(limit: UInt64) throws {
        let error = #expect(throws: StartError.self) { try DescriptorBudget(limit: limit) }
        #expect(error?.description.contains("the daemon needs 384; raise the limit") == true)
        #expect(error?.exitStatus == 78)
    }
}
