import Foundation
import GRDB
import StalecastRecords
import StalecastTestRecords
import StalecastTestSupport
import StalecastWebhooks
import StalecastWire
import Synchronization
import Testing

/// Registries of several nodes over one set of records.
@Suite(.timeLimit(.minutes(5))) struct SharedWebhooksTests {
    private final class Rows: Sendable {
        let records = MemoryRecords()
        let epoch = Epoch.random()
        let head = Atomic<CommitSequence>(7)
        private let tasks = Mutex<[ObjectIdentifier: Task<Void, Never>]>([:])

        var ids: Set<String> {
            get async throws { Set(try await records.all().records.map(\.name.id)) }
        }

        func join(_ registry: WebhookRegistry) {
            let informer = Informer(records, pause: .milliseconds(1))
            let place: @Sendable () -> StalecastWire.Cursor = { [epoch, weak self] in
                StalecastWire.Cursor(epoch: epoch, sequence: self?.head.load(ordering: .relaxed) ?? 0)
            }
            registry.share(in: informer, place: place, pause: .milliseconds(1))
            let task = Task {
                async let following: Void = informer.run()
                await registry.followShared()
                await following
            }
            tasks.withLock { $0[ObjectIdentifier(registry)] = task }
        }

        func leave(_ registry: WebhookRegistry) async {
            let task = tasks.withLock { $0.removeValue(forKey: ObjectIdentifier(registry)) }
            task?.cancel()
            await task?.value
        }

        deinit { for task in tasks.withLock({ $0.values }) { task.cancel() } }
    }

    private struct Nodes {
        let rows = Rows()
        let fixtures: [RegistryFixture]
        let a: WebhookRegistry
        let b: WebhookRegistry

        init() async throws {
            fixtures = [try RegistryFixture(), try RegistryFixture()]
            a = try fixtures[0].open()
            b = try fixtures[1].open(keyFile: "\(fixtures[0].directory)/webhooks.key")
            for node in [a, b] {
                rows.join(node)
                // The node makes its first webhook once it has read the records.
                var probe: WebhookID?
                try await eventually {
                    probe = try? await node.create(["url": "https://example.com"], in: .demo).webhook.id
                    return probe != nil
                }
                if let probe { try await node.delete(probe, in: .demo, etag: nil) }
            }
        }
    }

    @Test func whatOneNodeDoesAllHave() async throws {
        let nodes = try await Nodes()
        let (a, b) = (nodes.a, nodes.b)
        let made = try await a.create(["url": "https://example.com/a"], in: .demo)
        let id = made.webhook.id
        #expect(a.webhook(id) == made.webhook)
        try await eventually { b.webhook(id) != nil }
        #expect(try b.entry(id, in: .demo).keys == made.keys)
        #expect(b.webhook(id)?.since == [.pushRC: StalecastWire.Cursor(epoch: nodes.rows.epoch, sequence: 7)])
        let heard = Heard()
        a.observe(heard.hear)
        nodes.rows.head.store(9, ordering: .relaxed)
        let updated = try await b.update(id, in: .demo, ["description": "x"], mask: nil, etag: made.webhook.etag)
        try await eventually { a.webhook(id) == updated.webhook }
        // Versions since the webhook was made are owed to it; no later change takes one away.
        #expect(a.webhook(id)?.since[.pushRC]?.sequence == 7)
        #expect(heard.all == ["2"])
        await #expect(throws: RegistryProblem.changedMeanwhile) {
            try await a.update(id, in: .demo, ["description": "y"], mask: nil, etag: made.webhook.etag)
        }
        _ = try await b.update(id, in: .demo, ["topics": ["news", "PUSH_RC"]], mask: nil, etag: nil)
        try await eventually { a.webhook(id)?.topics.count == 2 }
        #expect(a.webhook(id)?.since.mapValues(\.sequence).values.sorted() == [7, 9])
        try await a.delete(id, in: .demo, etag: nil)
        #expect(a.webhook(id) == nil)
        #expect(try await nodes.rows.ids.isEmpty)
        try await eventually { b.webhook(id) == nil }
    }

    /// A watch tells of a record once; a database that was full then takes it over later.
    @Test func whatCouldNotBeStoredIsStoredLater() async throws {
        let nodes = try await Nodes()
        let other = try DatabaseQueue(path: "\(nodes.fixtures[1].directory)/\(WebhookRegistry.fileName)")
        try await other.write { db in
            try db.execute(
                sql: "CREATE TRIGGER full BEFORE INSERT ON webhook BEGIN SELECT RAISE(ABORT, 'disk is full'); END")
        }
        let id = try await nodes.a.create(["url": "https://example.com/a"], in: .demo).webhook.id
        let gone = try await nodes.a.create(["url": "https://example.com/b"], in: .demo).webhook.id
        try await nodes.a.delete(gone, in: .demo, etag: nil)
        try await Task.sleep(for: .milliseconds(50))
        #expect(nodes.b.webhook(id) == nil)
        try await other.write { try $0.execute(sql: "DROP TRIGGER full") }
        try await eventually { nodes.b.webhook(id) != nil }
        #expect(nodes.b.webhook(gone) == nil)
    }

    @Test func manyChangesAtTwoNodesAllCount() async throws {
        let nodes = try await Nodes()
        let id = try await nodes.a.create(["url": "https://example.com/a"], in: .demo).webhook.id
        try await eventually { nodes.b.webhook(id) != nil }
        await withTaskGroup { group in
            for number in 0..<10 {
                group.addTask {
                    // One that is always beaten would be refused: not of ten.
                    _ = try? await (number.isMultiple(of: 2) ? nodes.a : nodes.b).update(
                        id, in: .demo, ["description": .string("\(number)")], mask: nil, etag: nil)
                }
            }
        }
        try await eventually { nodes.a.webhook(id)?.generation == 11 }
        try await eventually { nodes.b.webhook(id) == nodes.a.webhook(id) }
    }

    @Test func whatHappenedMeanwhileIsTakenOver() async throws {
        let nodes = try await Nodes()
        let (a, b) = (nodes.a, nodes.b)
        let gone = try await a.create(["url": "https://example.com/gone"], in: .demo).webhook.id
        let kept = try await a.create(["url": "https://example.com/kept"], in: .demo).webhook.id
        try await eventually { b.webhooks.count == 2 }
        await nodes.rows.leave(b)
        b.close()
        try await a.delete(gone, in: .demo, etag: nil)
        _ = try await a.setPaused(true, kept, in: .demo)
        // Without etcd the last state is there.
        let again = try nodes.fixtures[1].open(keyFile: "\(nodes.fixtures[0].directory)/webhooks.key")
        #expect(again.webhooks.count == 2)
        nodes.rows.join(again)
        try await eventually { again.webhook(gone) == nil && again.webhook(kept)?.isPaused == true }
        nodes.rows.records.setAway(true)
        await #expect(throws: RegistryProblem.self) { try await again.setPaused(false, kept, in: .demo) }
        #expect(again.webhook(kept)?.isPaused == true)
    }

    @Test func whatWasThereBeforeTheClusterIsShared() async throws {
        let fixture = try RegistryFixture()
        let registry = try fixture.open()
        let id = try await registry.create(["url": "https://example.com/a"], in: .demo).webhook.id
        let rows = Rows()
        rows.join(registry)
        try await eventually { try await rows.ids == [id.description] }
        #expect(registry.webhook(id) != nil)
        _ = try await registry.setPaused(true, id, in: .demo)
        try await registry.delete(id, in: .demo, etag: nil)
        #expect(registry.webhooks.isEmpty)
        #expect(try await rows.ids.isEmpty)
    }

    /// Settings are each node's own, from its file; a pause holds on all nodes.
    @Test func webhooksOfTheFileArePausedEverywhere() async throws {
        let nodes = try await Nodes()
        var draft = WebhookDraft()
        try draft.take(["url": "https://example.com/a"], files: .paths)
        let configured = ConfiguredWebhook(
            name: "c", project: .demo, draft: draft,
            keys: [try SigningKey("whsec_" + String(repeating: "A", count: 43) + "=")])
        for node in [nodes.a, nodes.b] { try node.setConfigured([configured]) }
        _ = try await nodes.a.setPaused(true, configured.id, in: .demo)
        try await eventually { nodes.b.webhook(configured.id)?.isPaused == true }
        #expect(try nodes.b.entry(configured.id, in: .demo).keys.map(\.key) == configured.keys)
        _ = try await nodes.b.setPaused(false, configured.id, in: .demo)
        try await eventually { nodes.a.webhook(configured.id)?.isPaused == false }
        // Paused, and named later by the file of a node that comes.
        _ = try await nodes.b.setPaused(true, configured.id, in: .demo)
        let fixture = try RegistryFixture()
        let late = try fixture.open(keyFile: "\(nodes.fixtures[0].directory)/webhooks.key")
        nodes.rows.join(late)
        try await eventually {
            try late.setConfigured([configured])
            return late.webhook(configured.id)?.isPaused == true
        }
    }

    @Test func whatANewerProgramAddedToARowIsReadOverAndStays() async throws {
        let made = try await Nodes().a.create(["url": "https://example.com/a"], in: .demo)
        var row = try #require(made.record.object)
        row["new"] = "kept"
        var limits = try #require(row["limits"]?.object)
        limits["new"] = 7
        row["limits"] = .object(limits)
        var entry = try RegistryEntry(record: .object(row))
        #expect(entry.webhook == made.webhook)
        entry.webhook.isPaused = true
        #expect(entry.record["new"] == "kept" && entry.record["limits"]?["new"] == 7)
        #expect(entry.record["limits"]?["timeout"] == limits["timeout"])
        #expect(entry.document(at: .now())["new"] == nil, "an unknown member is kept, but not shown")
    }
}
