import StalecastHub
import StalecastWire
import Testing

private let address: RolloutTracker.Address = (key: 0, isLimited: false)

private func client(_ name: String) -> ClientIdentity { ClientIdentity(name)! }

/// A version's way over two nodes. Keys of clients are the same here without a secret: it is one process.
@Suite struct PropagationNodesTests {
    /// A hub with one loop, whose clients are told of what it is told.
    private struct Node {
        let hub = Hub(board: .make())
        let loop: Int
        var book: RolloutTracker { hub.propagation }

        init() {
            loop = hub.propagation.addLoop()
            hub.propagation.beginSharing()
        }

        func join(_ names: String...) {
            for name in names {
                _ = book.join(
                    client(name), of: [hub.board.push], on: hub.board, from: ResumePoint(have: 1), isPoll: false,
                    address: address)
            }
        }

        func publish(_ version: VersionNumber, streams: Int) {
            hub.announce(.make(version), at: 1)
            var streamCounts = StreamCounts()
            streamCounts.streams = streams
            book.note(streamCounts, of: loop, in: .demo, CommitSequence(version.rawValue))
        }

        func fetch(_ name: String, _ version: VersionNumber) {
            book.fetched(client(name), .demo, version, address: address)
        }

        /// Takes what the other one would write into its record, as it comes through JSON.
        func hear(_ other: Node) throws {
            let own = try #require(other.book.own(of: .demo, limit: 4))
            let document = try JSONValue.parse(NodeRollouts(head: own.head, own.rolloutStatuses).json.encoded())
            let report = try #require(NodeRollouts(json: document))
            book.heard("other", of: .demo, report)
            for foreignFetch in other.book.takeForeignFetches() { book.seenElsewhere(foreignFetch) }
        }
    }

    @Test func bothNodesCountTheClientsOfBoth() throws {
        let (a, b) = (Node(), Node())
        for node in [a, b] {
            node.publish(1, streams: 0)
            node.book.setNodes(["other"])
        }
        a.join("1", "2")
        b.join("3")
        a.publish(2, streams: 2)
        // Of the other nothing is known yet: the audience is not.
        #expect(a.book.propagation(of: .demo)?.isCounted == false)
        b.publish(2, streams: 1)
        // Each fetches where it does not listen.
        b.fetch("1", 2)
        a.fetch("3", 2)
        try a.hear(b)
        try b.hear(a)
        try a.hear(b)
        for node in [a, b] {
            let rolloutStatus = try #require(node.book.propagation(of: .demo))
            #expect(rolloutStatus.isCounted && rolloutStatus.version == 2 && rolloutStatus.state == .spreading)
            #expect(rolloutStatus.streams.streams == 3 && rolloutStatus.streams.told == 3)
            #expect(
                rolloutStatus.clients.audience == 3 && rolloutStatus.clients.fetched == 2
                    && rolloutStatus.clients.behind == 1)
            #expect(rolloutStatus.fetched.t50 != nil && rolloutStatus.fetched.t99 == nil)
        }
        a.fetch("2", 2)
        #expect(a.book.propagation(of: .demo)?.state == .converged)
        // It lives no more: its figures go.
        a.book.setNodes([])
        #expect(a.book.propagation(of: .demo)?.clients.audience == 2)
    }

    @Test func whoIsSeenElsewhereFirstIsCountedAtTheAnnouncement() throws {
        let a = Node()
        a.publish(1, streams: 0)
        a.join("1")
        let key = client("1").key(in: .demo)
        a.book.seenElsewhere(RolloutTracker.ForeignFetch(key: key, scope: .demo, fetched: 2, active: 0))
        a.publish(2, streams: 1)
        let clients = try #require(a.book.propagation(of: .demo)).clients
        #expect(clients.audience == 1 && clients.fetched == 1)
    }

    @Test func clientsThatFetchElsewhereInOneSecondAreAllTold() throws {
        let (a, b) = (Node(), Node())
        for node in [a, b] { node.publish(1, streams: 0) }
        for number in 0..<20_000 { a.join("\(number)") }
        for node in [a, b] { node.publish(2, streams: 0) }
        for number in 0..<20_000 { b.fetch("\(number)", 2) }
        try a.hear(b)
        #expect(try #require(a.book.propagation(of: .demo)).clients.behind == 0)
    }

    /// Versions follow each other faster than nodes tell of a client that moves between them: all have an older word.
    @Test func aClientIsToldOfOnceForAllThatAreBehind() {
        let a = Node()
        for version in 1...3 { a.publish(VersionNumber(clamping: version), streams: 0) }
        a.fetch("1", 3)
        #expect(a.book.takeForeignFetches().count == 1)
        let key = client("1").key(in: .demo)
        for fetched in [1, 2, 1, 2] as [VersionNumber] {
            a.book.seenElsewhere(RolloutTracker.ForeignFetch(key: key, scope: .demo, fetched: fetched, active: 0))
        }
        #expect(a.book.takeForeignFetches().map(\.fetched) == [3])
        #expect(a.book.takeForeignFetches().isEmpty)
    }

    @Test func countsForGatesAreThoseOfAllNodes() throws {
        var here = ReleaseClients()
        (here.fetched, here.failed, here.told, here.silent, here.answers, here.errors) = (1, 2, 3, 4, 5, 6)
        let elsewhere = try #require(ReleaseClients(shared: JSONValue.parse(Array(here.shared.encoded()))))
        #expect(elsewhere == here)
        var sum = ReleaseClients()
        (sum.fetched, sum.failed, sum.told, sum.silent, sum.answers, sum.errors) = (2, 4, 6, 8, 10, 12)
        #expect(here + elsewhere == sum)
        #expect(ReleaseClients(shared: [1, 2]) == nil)
        let odd = try #require(ReleaseClients(shared: [-1, "x", .null, 4, 5, 9_223_372_036_854_775_807]))
        #expect(odd.fetched == 0 && odd.failed == 0 && odd.errors == 1 << 32)
    }

    @Test func aNodeThatDoesNotReportIsWaitedForAsLongAsItsScopesTake() throws {
        let crowd = Crowd()
        crowd.book.setNodes(["other"])
        for number in 0..<200 {
            let scope = Scope(project: try ProjectID("busy\(number)"), namespace: .firebase)
            crowd.book.heard("other", of: scope, NodeRollouts(head: 0, []))
        }
        crowd.publish(1)
        crowd.wait(29_000)
        #expect(crowd.book.propagation(of: .demo)?.isCounted == false)
        crowd.wait(2000)
        #expect(crowd.book.propagation(of: .demo)?.isCounted == true)
    }

    @Test func theLogsWindowIsAnnounced() {
        let node = Node()
        var change = TemplateChange.make(1)
        change.notes.fetchWindowMs = 4711
        node.hub.announce(change, at: 1)
        #expect(node.book.propagation(of: .demo)?.fetches.windowMs == 4711)
    }

    @Test func theLongestWindowOfAllNodesIsTold() throws {
        let (a, edge) = (Node(), Node())
        for (node, window) in [(a, 4711), (edge, 90_000)] {
            var change = TemplateChange.make(1)
            change.notes.fetchWindowMs = window
            node.hub.announce(change, at: 1)
            node.book.setNodes(["other"])
        }
        try a.hear(edge)
        try edge.hear(a)
        for node in [a, edge] { #expect(node.book.propagation(of: .demo)?.fetches.windowMs == 90_000) }
    }
}
