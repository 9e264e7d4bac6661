import GRDB
import StalecastWebhooks
import StalecastWire
import Testing

@Suite struct ConfiguredWebhookTests {
    private func configured(
        _ name: String, url: String = "https://example.com/c", key: SigningKey
    ) throws -> ConfiguredWebhook {
        var draft = WebhookDraft()
        try draft.take(["url": .string(url)], files: .paths)
        return ConfiguredWebhook(name: name, project: .demo, draft: draft, keys: [key])
    }

    @Test func theFileDecidesButAPauseStays() async throws {
        let fixture = try RegistryFixture()
        let key = SigningKey.generate(.hmacSHA256)
        let first = try fixture.open()
        try first.setConfigured([configured("a", key: key), configured("b", key: key)])
        let a = WebhookID.configured("a", project: .demo)
        #expect(first.webhooks.count == 2)
        _ = try await first.setPaused(true, a, in: .demo)
        await #expect(throws: RegistryProblem.configured(name: "a")) {
            try await first.update(a, in: .demo, ["description": "x"], mask: nil, etag: nil)
        }
        await #expect(throws: RegistryProblem.configured(name: "a")) { try await first.delete(a, in: .demo, etag: nil) }
        await #expect(throws: RegistryProblem.configured(name: "a")) {
            try await first.rotateSecret(of: a, in: .demo, [:])
        }
        first.close()

        let second = try fixture.open()
        #expect(second.webhooks.isEmpty)
        try second.setConfigured([configured("a", key: key)])
        #expect(second.webhooks.map(\.id) == [a])
        #expect(second.webhooks[0].isPaused && second.webhooks[0].generation == 2)
        second.close()

        // Named again after it was gone, it begins anew.
        let third = try fixture.open()
        try third.setConfigured([])
        try third.setConfigured([configured("a", key: key)])
        #expect(!third.webhooks[0].isPaused && third.webhooks[0].generation == 1)
    }

    @Test func aReloadTellsOnlyWhatChanged() throws {
        let fixture = try RegistryFixture()
        let registry = try fixture.open()
        let (key, other) = (SigningKey.generate(.hmacSHA256), SigningKey.generate(.hmacSHA256))
        try registry.setConfigured([configured("a", key: key), configured("b", key: key)])
        let heard = Heard()
        registry.observe(heard.hear)
        try registry.setConfigured([configured("a", key: key), configured("b", key: key)])
        #expect(heard.all == [])
        try registry.setConfigured([
            configured("a", url: "https://example.com/new", key: key), configured("b", key: other),
        ])
        #expect(heard.all.sorted() == ["1", "2"])
        #expect(registry.signer(of: .configured("b", project: .demo)) != nil)
        try registry.setConfigured([configured("a", url: "https://example.com/new", key: key)])
        #expect(heard.all.last == "removed" && registry.webhooks.count == 1)
    }

    @Test func aWriteThatFailsInTheMiddleChangesNone() throws {
        let fixture = try RegistryFixture()
        let registry = try fixture.open()
        let key = SigningKey.generate(.hmacSHA256)
        try registry.setConfigured([configured("a", key: key)])
        let heard = Heard()
        registry.observe(heard.hear)
        let queue = try DatabaseQueue(path: "\(fixture.directory)/\(WebhookRegistry.fileName)")
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TRIGGER full BEFORE INSERT ON webhook WHEN (SELECT count(*) FROM webhook) > 0
                    BEGIN SELECT RAISE(ABORT, 'disk is full'); END
                    """)
        }
        #expect(throws: RegistryProblem.self) {
            try registry.setConfigured([configured("b", key: key), configured("c", key: key)])
        }
        #expect(registry.webhooks.map(\.name) == ["a"] && heard.all == [])
        let rows = try queue.read { try String.fetchAll($0, sql: "SELECT id FROM webhook") }
        #expect(rows == [WebhookID.configured("a", project: .demo).description])
        try queue.write { try $0.execute(sql: "DROP TRIGGER full") }
        try registry.setConfigured([configured("b", key: key), configured("c", key: key)])
        #expect(Set(registry.webhooks.map(\.name)) == ["b", "c"] && heard.all.count == 3)
    }

    @Test func oneThatBreaksTheRulesChangesNone() throws {
        let fixture = try RegistryFixture()
        let registry = try fixture.open()
        let key = SigningKey.generate(.hmacSHA256)
        try registry.setConfigured([configured("a", key: key)])
        #expect(throws: RegistryProblem.self) {
            try registry.setConfigured([configured("b", key: key), configured("c", url: "http://10.0.0.1/", key: key)])
        }
        #expect(registry.webhooks.map(\.name) == ["a"])
    }
}
