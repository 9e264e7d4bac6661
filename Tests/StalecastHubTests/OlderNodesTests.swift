import StalecastHub
import StalecastWire
import Testing

/// Counts from nodes of release 0.2.0, which do not say whether clients that left were told.
@Suite struct OlderNodesTests {
    private static func status() throws -> RolloutStatus {
        try #require(Crowd.thatLostSix().book.propagation(of: .demo))
    }

    private static func older(_ status: RolloutStatus) throws -> RolloutStatus {
        var record = try #require(status.shared.object)
        #expect(record["l"] != nil)
        record["l"] = nil
        return try #require(RolloutStatus(shared: .object(record), of: status.version))
    }

    @Test func clientsThatLeftAnOlderNodeCountAsLostAndAreNotCalledSo() throws {
        let older = try Self.older(Self.status())
        #expect(!older.clients.isLostKnown && older.share(of: .fetched) == (4, 10), "the least that it can be")
    }

    @Test func aSumWithAnOlderNodeIsNotGreenWhereClientsLeftIt() throws {
        let crowd = Crowd()
        crowd.join("own")
        crowd.publish(1)
        crowd.fetch("own", 1)
        let own = try #require(crowd.book.propagation(of: .demo))
        let sum = own.together(with: [try Self.older(Self.status())], isComplete: true)
        #expect(!sum.clients.isLostKnown && sum.share(of: .fetched) == (5, 11) && sum.state == .left)
        let known = own.together(with: [own], isComplete: true)
        #expect(known.clients.isLostKnown && known.state == .converged)
    }

    @Test func anOlderNodeThatNoClientLeftLeavesNothingOpen() throws {
        let crowd = Crowd()
        crowd.join("own")
        crowd.publish(1)
        #expect(try Self.older(#require(crowd.book.propagation(of: .demo))).clients.isLostKnown)
    }
}
