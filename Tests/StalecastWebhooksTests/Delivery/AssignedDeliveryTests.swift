import StalecastOutbound
import StalecastTestServers
import StalecastWebhooks
import StalecastWire
import Synchronization
import Testing

/// Deliveries that go from one node to another, each with a store of its own.
@Suite(.timeLimit(.minutes(1))) struct AssignedDeliveryTests {
    /// The cluster as delivery sees it: one duty, and what was kept of it under the newest token.
    private final class Cluster: Sendable {
        private let state = Mutex((token: Int64(0), kept: [UInt8]?.none, isPermitted: true, writes: 0))
        /// The longest attempt that may begin.
        let longest = Mutex(Duration.seconds(60))

        var kept: [UInt8]? { state.withLock { $0.kept } }
        var writes: Int { state.withLock { $0.writes } }
        func permit(_ isPermitted: Bool) { state.withLock { $0.isPermitted = isPermitted } }

        func owner() -> Int64 {
            state.withLock { state in
                state.token += 1
                return state.token
            }
        }

        var storage: AssignedDelivery.Storage {
            AssignedDelivery.Storage(
                assignment: { _ in "duty" },
                permits: { _, timeout in
                    self.longest.withLock { timeout <= $0 } && self.state.withLock { $0.isPermitted }
                },
                keep: { kept, _, token in
                    self.state.withLock { state in
                        guard token == state.token else { return false }
                        state.kept = kept
                        state.writes += 1
                        return true
                    }
                }, kept: { _ in self.kept })
        }
    }

    private struct Node {
        let fixture: DeliveryFixture
        let assignments: AssignedDelivery
        let task: Task<Void, Never>

        init(_ cluster: Cluster, _ epoch: Epoch, _ webhook: Webhook, versions: Int = 0) throws {
            fixture = try DeliveryFixture()
            fixture.epoch.withLock { $0 = epoch }
            for _ in 0..<versions { fixture.commit() }
            try fixture.start([])
            let assignments = AssignedDelivery(try fixture.delivery, epoch: epoch, cluster.storage)
            assignments.begin(with: [webhook])
            self.assignments = assignments
            task = Task { await assignments.run() }
        }

        func end() async {
            task.cancel()
            await fixture.end()
        }
    }

    @Test(arguments: [DeliveryMode.latest, .all]) func theNextOwnerGoesOn(mode: DeliveryMode) async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            let webhook = try DeliveryFixture.webhook(server.url, mode: mode)
            let (cluster, epoch) = (Cluster(), Epoch.random())
            let (a, b) = (try Node(cluster, epoch, webhook), try Node(cluster, epoch, webhook))
            let first = cluster.owner()
            a.assignments.begin("duty", first)
            for _ in 0..<3 {
                for node in [a, b] { try node.fixture.publish() }
                try await a.fixture.settled(webhook.id)
            }
            await a.assignments.finish("duty", first)
            #expect(try await a.fixture.delivery.status(of: webhook.id) == nil)
            // Meanwhile nobody's.
            for node in [a, b] { try node.fixture.publish() }
            let second = cluster.owner()
            b.assignments.begin("duty", second)
            try await b.fixture.settled(webhook.id)
            for node in [a, b] { try node.fixture.publish() }
            try await b.fixture.settled(webhook.id)
            #expect(server.versions == [1, 2, 3, 4, 5])
            b.assignments.lost("duty")
            for node in [a, b] { try node.fixture.publish() }
            #expect(try await b.fixture.delivery.status(of: webhook.id) == nil)
            await a.end()
            await b.end()
            #expect(server.versions == [1, 2, 3, 4, 5])
        }
    }

    /// What it kept while it lived says where its successor begins.
    @Test func anOwnerDies() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            let webhook = try DeliveryFixture.webhook(server.url, mode: .all)
            let (cluster, epoch) = (Cluster(), Epoch.random())
            let a = try Node(cluster, epoch, webhook)
            a.assignments.begin("duty", cluster.owner())
            try await eventually { try await a.fixture.delivery.status(of: webhook.id) != nil }
            try a.fixture.publish(3)
            try await a.fixture.settled(webhook.id)
            try await eventually {
                let image = DeliveryImage(document: cluster.kept ?? [], epoch: epoch)
                return image.lanes[webhook.id]?[DeliveryFixture.scope]?.record.cursor.sequence == 3
            }
            // 3 versions and 1 new lane, in no more writes than seconds.
            #expect(cluster.writes <= 3)
            await a.end()
            let b = try Node(cluster, epoch, webhook, versions: 3)
            b.assignments.begin("duty", cluster.owner())
            try await eventually { try await b.fixture.delivery.status(of: webhook.id) != nil }
            try b.fixture.publish()
            try await b.fixture.settled(webhook.id)
            await b.end()
            // In mode all, those of one publish after the other may overtake each other.
            #expect(server.versions.prefix(3).sorted() == [1, 2, 3] && server.versions.dropFirst(3) == [4])
        }
    }

    /// A webhook is owed what was committed after another node made it, whenever its owner hears of it.
    @Test(arguments: [DeliveryMode.latest, .all], [true, false])
    func whatCameBeforeItsOwnerHeardOfItIsOwed(mode: DeliveryMode, isOwned: Bool) async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            let (cluster, epoch) = (Cluster(), Epoch.random())
            func webhook(_ path: String, since: Cursor) throws -> Webhook {
                var webhook = Webhook(
                    id: .random(), project: DeliveryFixture.scope.project, url: try OutboundURL(server.url + path),
                    mode: mode, createdAt: isOwned ? .now() : Timestamp(microseconds: 0))
                webhook.since = [.pushRC: since]
                return webhook
            }
            let a = try Node(cluster, epoch, try DeliveryFixture.webhook(server.url), versions: 5)
            if isOwned {
                a.assignments.begin("duty", cluster.owner())
                try await eventually { a.assignments.delivers("duty") != nil }
            }
            let late = try webhook("/late", since: Cursor(epoch: epoch, sequence: 3))
            let ahead = try webhook("/ahead", since: Cursor(epoch: epoch, sequence: 6))
            let foreign = try webhook("/foreign", since: Cursor(epoch: .random(), sequence: 3))
            for webhook in [late, ahead, foreign] { a.assignments.take(.installed(webhook)) }
            if !isOwned { a.assignments.begin("duty", cluster.owner()) }
            func heard(_ path: String) -> [Int64] { server.versions(at: path).sorted() }
            try await eventually { heard("/late") == (mode == .all ? [4, 5] : [5]) }
            for _ in 0..<2 {
                try a.fixture.publish()
                for webhook in [late, foreign] { try await a.fixture.settled(webhook.id) }
            }
            try await a.fixture.settled(ahead.id)
            #expect(heard("/late") == (mode == .all ? [4, 5, 6, 7] : [5, 6, 7]))
            #expect(heard("/ahead") == [7])
            // Of one that was there before this node had the duty nothing is known.
            #expect(heard("/foreign") == (isOwned ? [6, 7] : [5, 6, 7]))
            await a.end()
        }
    }

    @Test func withoutAPermitNothingBegins() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            let webhook = try DeliveryFixture.webhook(server.url)
            let cluster = Cluster()
            let a = try Node(cluster, .random(), webhook)
            cluster.permit(false)
            a.assignments.begin("duty", cluster.owner())
            try await eventually { try await a.fixture.delivery.status(of: webhook.id) != nil }
            try a.fixture.publish()
            try await Task.sleep(for: .milliseconds(50))
            #expect(server.versions.isEmpty)
            cluster.permit(true)
            try await a.fixture.settled(webhook.id)
            #expect(server.versions == [1])
            await a.end()
        }
    }

    /// With its own timeout it would not fit into a lease, and never begin.
    @Test func aLongAttemptIsCutShorter() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            let limits = WebhookLimits(timeout: .seconds(60))
            let webhook = try DeliveryFixture.webhook(server.url, limits: limits)
            let cluster = Cluster()
            cluster.longest.withLock { $0 = AssignedDelivery.longestAttempt }
            let a = try Node(cluster, .random(), webhook)
            a.assignments.begin("duty", cluster.owner())
            try await eventually { try await a.fixture.delivery.status(of: webhook.id) != nil }
            try a.fixture.publish()
            try await a.fixture.settled(webhook.id)
            #expect(server.versions == [1])
            await a.end()
        }
    }

    @Test func whatIsKeptIsReadAsItWasWritten() throws {
        let (id, other, epoch) = (WebhookID.random(), WebhookID.random(), Epoch.random())
        var image = DeliveryImage()
        var record = JournalEntry.LaneRecord()
        record.cursor = ScopeLog.Place(version: 3, sequence: 7)
        record.acknowledged = ScopeLog.Place(version: 2, sequence: 5)
        record.givenUp = 6
        var health = JournalEntry.TargetHealth()
        health.failures = 4
        health.failedAttempts = 9
        health.failingTime = 12
        health.failingSince = Timestamp(microseconds: 1_790_000_000_000_001)
        health.disabledReason = "gone"
        health.receiver = "r"
        let scope = DeliveryFixture.scope
        for entry: JournalEntry in [
            .beyond(id, scope, ScopeLog.Place(version: 2, sequence: 6)),
            .beyond(id, scope, ScopeLog.Place(version: 5, sequence: 9)), .lane(id, scope, record), .health(id, health),
            .extras(id, scope, [1, 2, 4], areOwed: true), .extras(id, scope, [2], areOwed: false),
            .health(other, health), .removed(other),
        ] { image.take(entry) }
        #expect(image.ids == [id] && image.health == [id: health])
        #expect(image.lanes[id]?[scope]?.beyond == [9: 5] && image.lanes[id]?[scope]?.extras == [1, 4])
        #expect(DeliveryImage(document: image.document(epoch: epoch), epoch: epoch) == image)
        // In another history places say nothing.
        let renewed = DeliveryImage(document: image.document(epoch: epoch), epoch: .random())
        #expect(renewed.health == image.health && renewed.lanes[id]?[scope]?.isRenewed == true)
        #expect(renewed.lanes[id]?[scope]?.record == JournalEntry.LaneRecord())
        let absurd = """
            {"epoch":"\(epoch)","webhooks":{"x":{},"\(id)":{"health":7,"lanes":{"x":1,"demo/firebase":{"cursor":[-9,-9],\
            "acknowledged":[1e400,"a"],"givenUp":-1,"beyond":[7,[1,2,3]],"extras":[-1,"x",99999999999999999999]}}}}}
            """
        for text in ["", "{", "[]", "{\"webhooks\":[]}", absurd] {
            _ = DeliveryImage(document: Array(text.utf8), epoch: epoch)
        }
    }
}
