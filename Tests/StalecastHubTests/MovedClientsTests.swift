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

    @Test func aLateWordOfANodeThatIsGoneHoldsAClientUntilTheNextLossOfANode() throws {
        let (a, b) = try Self.nodes()
        a.leave("goes")
        b.join("goes")
        a.book.setNodes([])
        try Self.tell(b, a)
        Self.wait(a)
        #expect(a.clients().lost == 0)
        a.book.setNodes(["third"])
        a.book.setNodes([])
        _ = a.clients()
        Self.wait(a)
        #expect(a.clients().lost == 1)
    }

    @Test func clientsThatComeAgainInSilenceAreNotTold() throws {
        let (a, b) = try Self.nodes()
        a.wait(121_000)
        _ = a.book.takeForeignFetches()
        func comesBack(_ name: String, after milliseconds: UInt64) -> Int {
            a.leave(name)
            a.wait(milliseconds)
            _ = a.clients()
            a.join(name)
            return a.book.takeForeignFetches().count
        }
        #expect((0..<50).map { _ in comesBack("stays", after: 1000) }.reduce(0, +) == 0)
        #expect((0..<50).map { _ in comesBack("stays", after: 11_000) }.reduce(0, +) == 0, "it has the version")
        #expect((0..<50).map { _ in comesBack("goes", after: 1000) }.reduce(0, +) == 0)
        #expect(comesBack("goes", after: 11_000) == 1, "it is behind, and may have been elsewhere")
        // The node that it came to tells of it, however late.
        b.wait(200_000)
        try Self.move(a, b)
        #expect(comesBack("goes", after: 0) == 1, "it was elsewhere")
        for node in [a, b] { node.publish(2) }
        #expect(comesBack("stays", after: 1000) == 1, "a version was announced")
    }

    @Test func guestsThatGoAndHaveTheVersionAreNotTold() throws {
        let (_, b) = try Self.nodes()
        b.join("guest", have: 1)
        b.join("late")
        #expect(b.book.takeForeignFetches().count == 2)
        for name in ["guest", "late"] { b.leave(name) }
        b.wait(11_000)
        _ = b.clients()
        let late = Crowd.client("late").key(in: .demo)
        #expect(b.book.takeForeignFetches().map(\.key) == [late])
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
    @Test func aReportOfAnOlderNodeLeavesAClientWhereItWas() throws {
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
