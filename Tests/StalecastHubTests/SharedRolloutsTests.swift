import StalecastHub
import StalecastRecords
import StalecastTestRecords
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

private let address: RolloutTracker.Address = (key: 0, isLimited: false)

private func client(_ name: String) -> ClientIdentity { ClientIdentity(name)! }

/// Tests what nodes tell each other of how versions come to clients, over records in memory.
@Suite(.timeLimit(.minutes(5))) struct SharedRolloutsTests {
    /// A node with one loop, which shares when it is told to.
    private final class Node: Sendable {
        let hub: Hub
        let membership: Membership
        let rollouts: SharedRollouts
        private let loop: Int
        private let task = Mutex<Task<Void, Never>?>(nil)

        /// - Parameter isReleasing: version 2 is an open release.
        init(
            _ name: String, _ records: MemoryRecords, scopes: [Scope] = [.demo], owed: Int = 0,
            isReleasing: Bool = false
        ) async throws {
            hub = Hub(board: .make(bindings: [TopicBinding(name: .pushRC, scopes: scopes)]))
            membership = Membership(name, records, clock: { .seconds(1_000_000) }, report: { _ in })
            rollouts = SharedRollouts(membership, hub.propagation, scopes) { _, _ in
                var counts = WebhookCounts()
                (counts.owed, counts.delivered) = (owed, 1)
                return counts
            } openRelease: { _ in
                isReleasing ? 2 : nil
            }
            loop = hub.propagation.addLoop()
            task.withLock { [membership] in $0 = Task { await membership.run() } }
            await rollouts.begin()
        }

        func publish(_ version: VersionNumber, streams: Int) {
            hub.announce(.make(version), at: 1)
            var counts = StreamCounts()
            counts.streams = streams
            hub.propagation.note(counts, of: loop, in: .demo, CommitSequence(version.rawValue))
        }

        func join(_ name: String) {
            _ = hub.propagation.join(
                client(name), of: [hub.board.push], on: hub.board, from: ResumePoint(have: 1), isPoll: false,
                address: address)
        }

        func fetch(_ name: String, _ version: VersionNumber) {
            hub.propagation.fetched(client(name), .demo, version, address: address)
        }

        func end() async {
            let task = task.withLock { $0.take() }
            task?.cancel()
            await task?.value
        }

        deinit { task.withLock { $0?.cancel() } }
    }

    private static func pair(_ records: MemoryRecords, isReleasing: Bool = false) async throws -> (Node, Node) {
        let a = try await Node("a", records, owed: 1, isReleasing: isReleasing)
        let b = try await Node("b", records, owed: 2, isReleasing: isReleasing)
        for node in [a, b] {
            try await eventually { node.membership.counts.all == 2 && node.membership.lease != nil }
            node.publish(1, streams: 0)
            await node.rollouts.share()
        }
        return (a, b)
    }

    @Test func eachNodeCountsTheClientsOfAll() async throws {
        let records = MemoryRecords()
        let (a, b) = try await Self.pair(records)
        a.join("1")
        b.join("2")
        for node in [a, b] { node.publish(2, streams: 1) }
        // Each fetches where it does not listen.
        a.fetch("2", 2)
        b.fetch("1", 2)
        for node in [a, b] { await node.rollouts.share() }
        for node in [a, b] {
            try await eventually {
                // Fetches that the other node saw are told again with its next report.
                for node in [a, b] { await node.rollouts.share() }
                let status = node.hub.propagation.propagation(of: .demo)
                return status?.isCounted == true && status?.clients.fetched == 2 && status?.streams.streams == 2
            }
        }
        #expect(a.hub.propagation.webhooksElsewhere(of: .demo, 2).owed == 2)
        #expect(b.hub.propagation.webhooksElsewhere(of: .demo, 2).owed == 1)
        #expect(a.hub.propagation.webhooksElsewhere(of: .demo, 1) == WebhookCounts(), "it has a newer one")
        // What a node that is gone reported counts no more.
        await b.end()
        try await eventually {
            await a.rollouts.share()
            return a.hub.propagation.webhooksElsewhere(of: .demo, 2) == WebhookCounts()
        }
        #expect(a.hub.propagation.propagation(of: .demo)?.streams.streams == 1)
        await a.end()
    }

    @Test func aClientIsWhereItsNodeLivesWhicheverOtherNodeEnds() async throws {
        let records = MemoryRecords()
        var nodes: [Node] = []
        for name in ["a", "b", "c"] { nodes.append(try await Node(name, records)) }
        let (a, b, c) = (nodes[0], nodes[1], nodes[2])
        func isLive() -> Bool? {
            a.hub.propagation.laggards(of: .demo, 2, stage: .fetched, limit: 1)?.clients.first?.isLive
        }
        func left(_ count: Int) async throws {
            try await eventually {
                await a.rollouts.share()
                return a.membership.counts.all == count
            }
            await a.rollouts.share()
        }
        for node in nodes {
            try await eventually { node.membership.counts.all == 3 && node.membership.lease != nil }
            node.publish(1, streams: 0)
            if node === a { a.join("moves") }
            node.publish(2, streams: 0)
            await node.rollouts.share()
        }
        a.hub.propagation.left([client("moves").key(in: .demo)], isPoll: false)
        #expect(isLive() == false)
        c.join("moves")
        await c.rollouts.share()
        try await eventually { isLive() == true }
        await b.end()
        try await left(2)
        #expect(isLive() == true)
        await c.end()
        try await left(1)
        #expect(isLive() == false)
        await a.end()
    }

    @Test func clientsOfAReleaseAreReported() async throws {
        let records = MemoryRecords()
        let (a, b) = try await Self.pair(records, isReleasing: true)
        for node in [a, b] { node.publish(2, streams: 0) }
        b.fetch("1", 2)
        try await eventually {
            await b.rollouts.share()
            await a.rollouts.share()
            return a.hub.propagation.clientsElsewhere(ofRelease: 2, in: .demo).answers == 1
        }
        #expect(a.hub.propagation.clientsElsewhere(ofRelease: 1, in: .demo) == ReleaseClients())
        for node in [a, b] { await node.end() }
    }

    @Test func manyBusyScopesAreReportedInTurns() async throws {
        let records = MemoryRecords()
        let scopes = try (0..<120).map { Scope(project: try ProjectID("busy\($0)"), namespace: .firebase) }
        let a = try await Node("a", records, scopes: scopes)
        try await eventually { a.membership.lease != nil }
        for (number, scope) in scopes.enumerated() {
            a.hub.announce(.make(1, sequence: CommitSequence(number + 1), scope: scope), at: 1)
        }
        var revisions: [[Int64]] = []
        for _ in 0..<4 {
            await a.rollouts.share()
            revisions.append(try await records.all().records.filter { $0.name.kind == "way" }.map(\.revision).sorted())
        }
        #expect(revisions.map(\.count) == [50, 100, 120, 120])
        #expect(Set(revisions[2]).count == 3, "what is told at once is one write")
        #expect(revisions[3] == revisions[2], "what is told already is not told again")
        await a.end()
    }

    @Test func aReportIsReadAsItWasWritten() throws {
        let hub = Hub(board: .make())
        for version in 1...2 { hub.announce(.make(VersionNumber(clamping: version)), at: 1) }
        let own = try #require(hub.propagation.own(of: .demo, limit: 4))
        var report = NodeRollouts(head: own.head, own.rolloutStatuses)
        var (webhooks, clients) = (WebhookCounts(), ReleaseClients())
        (webhooks.owed, webhooks.delivered, webhooks.failing) = (1, 2, 3)
        clients.fetched = 5
        (report.webhooks, report.release) = (webhooks, (2, clients))
        let read = try #require(NodeRollouts(json: JSONValue.parse(report.json.encoded())))
        #expect(read.head == 2 && Set(read.statuses.keys) == [1, 2])
        #expect(read.webhooks == webhooks && read.release?.version == 2 && read.release?.clients == clients)
        for text in ["{}", "7", #"{"head":0}"#, #"{"head":"x","ways":[]}"#] {
            #expect(try NodeRollouts(json: JSONValue.parse(Array(text.utf8))) == nil)
        }
        let odd = #"{"head":1,"ways":{"x":7,"3":{}},"webhooks":[1],"release":{"version":"7"}}"#
        let rest = try #require(NodeRollouts(json: JSONValue.parse(Array(odd.utf8))))
        #expect(rest.webhooks == nil && rest.release == nil && rest.statuses.isEmpty)
    }

    /// Shares clients in any number, beside records that other programs write.
    @Test func manyClientsAreToldInFewRecords() async throws {
        let records = MemoryRecords()
        let (a, b) = try await Self.pair(records)
        for number in 0..<12_000 { b.join("\(number)") }
        for node in [a, b] { node.publish(2, streams: 0) }
        for number in 0..<12_000 { a.fetch("\(number)", 2) }
        for (number, text) in ["", "{}", #"{"node":"x","seen":[7,{"scope":"/demo"}]}"#].enumerated() {
            _ = try await records.put(
                Array(text.utf8), to: RecordName(SharedRollouts.sightings, "x/\(number)"), over: nil, lease: nil)
        }
        await a.rollouts.share()
        let sightings = try await records.all().records.filter { $0.name.kind == SharedRollouts.sightings }
        #expect(sightings.count == 3 + 3, "5,000 clients in each")
        #expect(sightings.allSatisfy { $0.value.count <= SharedRecord.maxBytes })
        try await eventually { b.hub.propagation.propagation(of: .demo)?.clients.behind == 0 }
        for node in [a, b] { await node.end() }
    }
}
