import StalecastHub
import StalecastWire
import Testing

/// Clients that move from one node of a cluster to another while a version spreads.
@Suite struct MovedClientsTests {
    private static func tell(_ from: Crowd, _ to: Crowd, as node: String = "other") throws {
        for told in from.book.takeForeignFetches() {
            to.book.seenElsewhere(
                RolloutTracker.ForeignFetch(
                    key: told.key, scope: told.scope, fetched: told.fetched, active: told.active, isHere: told.isHere,
                    node: node))
        }
    }

    /// Two nodes; `goes` and `stays` listen at the first one and hear version 1 there.
    private static func nodes() throws -> (a: Crowd, b: Crowd) {
        let (a, b) = (Crowd(), Crowd())
        for node in [a, b] {
            node.book.beginSharing()
            node.book.setNodes(["other"])
        }
        for name in ["goes", "stays"] { a.join(name) }
        for node in [a, b] { node.publish(1) }
        a.fetch("stays", 1)
        return (a, b)
    }

    private static func move(_ a: Crowd, _ b: Crowd) throws {
        a.leave("goes")
        b.join("goes")
        try tell(b, a)
    }

    private static func wait(_ nodes: Crowd...) { for node in nodes { node.wait(11_000) } }

    @Test func aClientThatListensAtAnotherNodeIsAwaitedAndNotLost() throws {
        let (a, b) = try Self.nodes()
        try Self.move(a, b)
        Self.wait(a, b)
        #expect(a.clients().left == 0 && a.clients().behind == 1 && a.book.propagation(of: .demo)?.state == .spreading)
        b.fetch("goes", 1)
        try Self.tell(b, a)
        #expect(a.clients().fetched == 2 && a.book.propagation(of: .demo)?.state == .converged)
    }

    @Test func aClientThatLeavesTheOtherNodeTooIsLost() throws {
        let (a, b) = try Self.nodes()
        try Self.move(a, b)
        Self.wait(a, b)
        b.leave("goes")
        Self.wait(b)
        _ = b.clients()
        try Self.tell(b, a)
        #expect(a.clients().lost == 1 && a.book.propagation(of: .demo)?.state == .left)
        #expect(b.clients().audience == 0)
    }

    @Test func aLostClientThatComesToAnotherNodeIsAwaitedAgain() throws {
        let (a, b) = try Self.nodes()
        a.leave("goes")
        Self.wait(a, b)
        #expect(a.clients().lost == 1)
        b.join("goes")
        try Self.tell(b, a)
        #expect(a.clients().lost == 0 && a.clients().left == 0 && a.clients().behind == 1)
    }

    @Test func aClientOfANodeThatIsGoneIsLostUnlessItComesBack() throws {
        let (a, b) = try Self.nodes()
        try Self.move(a, b)
        Self.wait(a, b)
        #expect(a.clients().lost == 0)
        a.book.setNodes([])
        #expect(a.clients().lost == 0)
        Self.wait(a)
        #expect(a.clients().lost == 1)
    }

    @Test func onlyTheNodeWhereAClientListensSaysThatItLeft() throws {
        let (a, b) = try Self.nodes()
        a.book.setNodes(["other", "third"])
        try Self.move(a, b)
        let key = Crowd.client("goes").key(in: .demo)
        func leaves(_ node: String) {
            a.book.seenElsewhere(
                RolloutTracker.ForeignFetch(key: key, scope: .demo, fetched: 0, active: 0, isHere: false, node: node))
        }
        Self.wait(a, b)
        #expect(a.clients().lost == 0)
        leaves("third")
        a.book.setNodes(["other"])
        Self.wait(a)
        #expect(a.clients().lost == 0, "the other node lives, and the client listens there")
        leaves("other")
        #expect(a.clients().lost == 1)
    }

    @Test func aClientThatMovedIsOfTheNextAudienceWhereItListens() throws {
        let (a, b) = try Self.nodes()
        try Self.move(a, b)
        for node in [a, b] { node.publish(2) }
        #expect(a.clients(2).audience == 1 && b.clients(2).audience == 1)
        b.leave("goes")
        Self.wait(a, b)
        #expect(b.clients(2).lost == 1)
    }

    /// Older programs do not say where a client listens.
    @Test func aSightingOfAnOlderNodeLeavesAClientWhereItWas() throws {
        let (a, _) = try Self.nodes()
        a.leave("goes")
        let key = Crowd.client("goes").key(in: .demo)
        a.book.seenElsewhere(RolloutTracker.ForeignFetch(key: key, scope: .demo, fetched: 0, active: 0))
        Self.wait(a)
        #expect(a.clients().lost == 1)
    }

    @Test func laggardsAreAlsoThoseThatAreLost() throws {
        let (a, _) = try Self.nodes()
        a.leave("goes")
        Self.wait(a)
        let found = try #require(a.book.laggards(of: .demo, nil, stage: .fetched, limit: 10))
        #expect(found.total == 1 && found.clients.map(\.state) == [.lost] && found.clients.first?.isLive == false)
        a.fetch("goes", 1)
        #expect(a.book.laggards(of: .demo, nil, stage: .fetched, limit: 10)?.total == 0)
    }
}
