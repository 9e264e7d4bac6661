import StalecastDaemon
import Testing

@Suite struct DescriptorBudgetTests {
    /// The daemon's own files, and connections that Edge and Control are refusing.
    private static let own = 116, refused = 48

    @Test(arguments: [384, 400, 600, 1_024, 4_096, 20_000, 65_536, 1_048_576] as [UInt64])
    func theSharesLeaveRoomForTheDaemonsOwnFiles(limit: UInt64) throws {
        let budget = try DescriptorBudget(limit: limit)
        let sockets = 2 * budget.outboundRequests + budget.keptConnections + budget.lookups
        #expect(budget.edge + budget.control + sockets + Self.own + Self.refused < limit)
        #expect(min(budget.edge, budget.control, budget.outboundRequests, budget.keptConnections, budget.lookups) > 0)
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
