import StalecastEdge
import StalecastHub
import StalecastTestSupport
import StalecastWire
import Testing

/// Versions of a burst that some streams never get, because a newer one took their place.
@Suite struct PassedOverTests {
    private static func state(_ carrier: MemoryCarrier, _ version: VersionNumber) throws -> RolloutStatus {
        try #require(carrier.hub.propagation.propagation(of: LiveEdge.scope, version))
    }

    @Test func versionsThatOneBatchReplacesWereSentToNoStream() throws {
        let carrier = MemoryCarrier()
        let clients = try (0..<5).map { _ in try carrier.stream() }
        for _ in 1...3 { carrier.announce() }
        carrier.takeEvents()
        #expect(clients.allSatisfy { $0.versions == [3] })
        for version in [1, 2] as [VersionNumber] {
            let status = try Self.state(carrier, version)
            #expect(status.state == .superseded && status.streams.told == 0 && status.streams.streams == 5)
            #expect(status.sent.last == nil)
        }
        let newest = try Self.state(carrier, 3)
        #expect(newest.state == .converged && newest.streams.told == 5)
    }

    @Test func aVersionThatIsHeldBackAndReplacedWasSentToNoStream() throws {
        let carrier = MemoryCarrier()
        let client = try carrier.firebase()
        for _ in 1...3 { carrier.publish() }
        carrier.pass(300)
        #expect(client.versions == [1, 3])
        #expect(try Self.state(carrier, 1).state == .converged && Self.state(carrier, 3).state == .converged)
        let passedOver = try Self.state(carrier, 2)
        #expect(passedOver.state == .superseded && passedOver.streams.told == 0)
    }

    @Test func aVersionWithoutAudienceStaysSoInABurst() throws {
        let carrier = MemoryCarrier()
        for _ in 1...2 { carrier.announce() }
        carrier.takeEvents()
        #expect(try Self.state(carrier, 1).state == .noAudience && Self.state(carrier, 2).state == .noAudience)
    }

    /// Compares what is counted with the texts of the clients, over streams that come, go, stall and read again.
    @Test(arguments: 1...60) func noVersionCountsMoreStreamsThanGotIt(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let carrier = MemoryCarrier(herdBudget: seed.isMultiple(of: 3) ? 2 : 0)
        var clients: [MemoryCarrier.Client] = []
        var audiences: [[MemoryCarrier.Client]] = []
        for _ in 0..<60 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0, 1: clients.append(try carrier.stream())
            case 2, 3: clients.append(try carrier.firebase())
            case 4...6 where audiences.count < 28:
                let here = clients.filter { !$0.isOver }
                for _ in 1...Int.random(in: 1...3, using: &random) {
                    carrier.announce()
                    audiences.append(here)
                }
                carrier.takeEvents()
            case 7: clients.randomElement(using: &random)?.room = 10
            case 8: clients.randomElement(using: &random).map { carrier.unblock($0) }
            case 9 where Bool.random(using: &random):
                clients.randomElement(using: &random).map { carrier.hangUp($0) }
            default: carrier.pass([100, 300, 1500, 6000].randomElement(using: &random) ?? 100)
            }
            for status in carrier.hub.propagation.propagations(of: LiveEdge.scope) {
                let audience = audiences[Int(status.version.rawValue) - 1]
                let got = audience.count { $0.versions.contains(Int(status.version.rawValue)) }
                let (told, number) = (status.streams.told, status.version)
                #expect(told <= got, "seed \(seed): version \(number) is said to be sent to \(told), \(got) got it")
                let without = audience.filter {
                    !$0.isOver && !$0.versions.contains(Int(status.version.rawValue))
                }
                #expect(
                    status.state != .converged || without.isEmpty, "seed \(seed): version \(number) is green too early")
            }
            #expect(carrier.audience.inconsistencies() == [])
        }
    }
}
