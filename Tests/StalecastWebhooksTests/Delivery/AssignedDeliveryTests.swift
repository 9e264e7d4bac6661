import StalecastOutbound
import StalecastRecords
import StalecastTestRecords
import StalecastTestServers
import StalecastTestSupport
import StalecastWebhooks
import StalecastWire
import Synchronization
import Testing

/// Deliveries that go from one node to another, each with a store of its own.
@Suite(.timeLimit(.minutes(5))) struct AssignedDeliveryTests {
    /// The cluster as delivery sees it: one node at a time has the assignments.
    private final class Cluster: Sendable {
        let records = MemoryRecords()
        let time = Mutex(Duration.seconds(1000))

        /// Makes a node the only one that should have assignments; the one before hands its own over.
        func assign(to name: String) async throws {
            for other in ["a", "b", "neither"] {
                var record = NodeRecord()
                record.isLeaving = other != name
                let known = try await records.records([RecordName(NodeRecord.kind, other)]).records.first
                _ = try await records.put(
                    record.encoded, to: RecordName(NodeRecord.kind, other), over: known?.revision, lease: nil)
            }
        }

        /// The lease of the node ends that has a webhook's assignment.
        func end(of webhook: Webhook) async throws {
            let name = RecordName(AssignmentService.kind, webhook.id.assignment)
            let record = try #require(try await records.records([name]).records.first)
            _ = try await records.remove(name, at: record.revision)
        }

        func kept(_ webhook: Webhook) async throws -> [UInt8] {
            try await records.kept(of: RecordName(AssignmentService.kind, webhook.id.assignment)) ?? []
        }
    }

    private struct Node {
        let fixture: DeliveryFixture
        let delivery: AssignedDelivery
        private let service: AssignmentService
        private let tasks: [Task<Void, Never>]

        init(
            _ name: String, _ cluster: Cluster, _ epoch: Epoch, _ webhook: Webhook, versions: Int = 0
        ) throws {
            fixture = try DeliveryFixture()
            fixture.epoch.withLock { $0 = epoch }
            for _ in 0..<versions { fixture.commit() }
            try fixture.start([])
            let (informer, work) = (Informer(cluster.records, pause: .milliseconds(1)), AssignedWork())
            let service = AssignmentService(
                node: name, instance: name, informer, cluster.records,
                lease: AssignmentLease(renewal: .milliseconds(20)),
                calm: .zero, clock: { cluster.time.withLock { $0 } }, worker: work.worker)
            let delivery = AssignedDelivery(try fixture.delivery, epoch: epoch, service, patience: .seconds(60))
            work.set(
                webhooks: AssignmentService.Worker(
                    begin: { delivery.begin($0, $1) }, finish: { await delivery.finish($0, $1) },
                    lost: { delivery.lost($0) }), WebhookAssignments.names)
            delivery.begin(with: [webhook])
            service.want(WebhookAssignments.names)
            (self.delivery, self.service) = (delivery, service)
            tasks = [Task { await informer.run() }, Task { await service.run() }, Task { await delivery.run() }]
        }

        func end() async {
            for task in tasks { task.cancel() }
            await fixture.end()
        }

        /// Ends ``AssignedDelivery/run()``.
        func stopFollowing() async {
            tasks[2].cancel()
            await tasks[2].value
        }

        func delivers(_ webhook: Webhook) async throws -> Bool {
            try await fixture.delivery.status(of: webhook.id) != nil
        }

        func permits(_ webhook: Webhook, _ time: Duration) -> Bool {
            service.permit(webhook.id.assignment, time) != nil
        }
    }

    @Test(arguments: [DeliveryMode.latest, .all]) func theNextOwnerGoesOn(mode: DeliveryMode) async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            let webhook = try DeliveryFixture.webhook(server.url, mode: mode)
            let (cluster, epoch) = (Cluster(), Epoch.random())
            let (a, b) = (try Node("a", cluster, epoch, webhook), try Node("b", cluster, epoch, webhook))
            try await cluster.assign(to: "a")
            try await eventually { try await a.delivers(webhook) }
            for _ in 0..<3 {
                for node in [a, b] { try node.fixture.publish() }
                try await a.fixture.settled(webhook.id)
            }
            try await cluster.assign(to: "neither")
            try await eventually { try await !a.delivers(webhook) }
            for node in [a, b] { try node.fixture.publish() }
            try await cluster.assign(to: "b")
            try await eventually { try await b.delivers(webhook) }
            try await b.fixture.settled(webhook.id)
            for node in [a, b] { try node.fixture.publish() }
            try await b.fixture.settled(webhook.id)
            #expect(server.versions == [1, 2, 3, 4, 5])
            // Its lease ends.
            cluster.records.setAway(true)
            cluster.time.withLock { $0 += .seconds(60) }
            try await eventually { try await !b.delivers(webhook) }
            for node in [a, b] { try node.fixture.publish() }
            await a.end()
            await b.end()
            #expect(server.versions == [1, 2, 3, 4, 5])
        }
    }

    /// A put that is sent must be waited for, and so must be made in a task that is not cancelled.
    @Test func aCancelledOwnerKeepsWhatWasDecided() async throws {
        let webhook = try DeliveryFixture.webhook("http://127.0.0.1:9", mode: .all)
        let cluster = Cluster()
        let a = try Node("a", cluster, .random(), webhook)
        try await cluster.assign(to: "a")
        try await eventually { try await a.delivers(webhook) }
        await a.stopFollowing()
        let token = try #require(a.delivery.delivers(webhook.id.assignment))
        let before = cluster.records.documents
        let settling = Task {
            await untilCancelled()
            return await a.delivery.settle(webhook.id.assignment, token)
        }
        settling.cancel()
        #expect(await settling.value)
        #expect(cluster.records.documents == before + 1)
        await a.end()
    }

    /// Kills an owner: what it kept while it lived says where its successor begins.
    @Test func anOwnerDies() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            let webhook = try DeliveryFixture.webhook(server.url, mode: .all)
            let (cluster, epoch) = (Cluster(), Epoch.random())
            let a = try Node("a", cluster, epoch, webhook)
            try await cluster.assign(to: "a")
            try await eventually { try await a.delivers(webhook) }
            let before = cluster.records.documents
            try a.fixture.publish(3)
            try await a.fixture.settled(webhook.id)
            try await eventually {
                let image = DeliveryImage(document: try await cluster.kept(webhook), epoch: epoch)
                return image.lanes[webhook.id]?[DeliveryFixture.scope]?.record.cursor.sequence == 3
            }
            // 3 versions and 1 new lane, in no more writes than seconds.
            #expect(cluster.records.documents - before <= 3)
            await a.end()
            try await cluster.end(of: webhook)
            let b = try Node("b", cluster, epoch, webhook, versions: 3)
            try await cluster.assign(to: "b")
            try await eventually { try await b.delivers(webhook) }
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
            let a = try Node("a", cluster, epoch, try DeliveryFixture.webhook(server.url), versions: 5)
            if isOwned {
                try await cluster.assign(to: "a")
                try await eventually { WebhookAssignments.names.allSatisfy { a.delivery.delivers($0) != nil } }
            }
            let late = try webhook("/late", since: Cursor(epoch: epoch, sequence: 3))
            let ahead = try webhook("/ahead", since: Cursor(epoch: epoch, sequence: 6))
            let foreign = try webhook("/foreign", since: Cursor(epoch: .random(), sequence: 3))
            for webhook in [late, ahead, foreign] { a.delivery.take(.installed(webhook)) }
            if !isOwned { try await cluster.assign(to: "a") }
            func heard(_ path: String) -> [Int64] { server.versions(at: path).sorted() }
            try await eventually {
                // Each is taken over by itself.
                heard("/late") == (mode == .all ? [4, 5] : [5]) && heard("/foreign") == (isOwned ? [] : [5])
            }
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
            let a = try Node("a", cluster, .random(), webhook)
            try await cluster.assign(to: "a")
            try await eventually { try await a.delivers(webhook) }
            // Nothing is renewed, and what is left of the lease is shorter than an attempt.
            cluster.records.setAway(true)
            cluster.time.withLock { $0 += .seconds(40) }
            #expect(!a.permits(webhook, .seconds(10)) && a.permits(webhook, .seconds(1)))
            try a.fixture.publish()
            try await Task.sleep(for: .milliseconds(50))
            #expect(server.versions.isEmpty)
            cluster.records.setAway(false)
            try await a.fixture.settled(webhook.id)
            #expect(server.versions == [1])
            await a.end()
        }
    }

    /// Cuts a timeout with which an attempt would not fit into a lease, and never begin.
    @Test func aLongAttemptIsCutShorter() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            let limits = WebhookLimits(timeout: .seconds(60))
            let webhook = try DeliveryFixture.webhook(server.url, limits: limits)
            let cluster = Cluster()
            let a = try Node("a", cluster, .random(), webhook)
            try await cluster.assign(to: "a")
            try await eventually { try await a.delivers(webhook) }
            #expect(!a.permits(webhook, .seconds(60)) && a.permits(webhook, AssignedDelivery.longestAttempt))
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
