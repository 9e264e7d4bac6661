import StalecastOutbound
import StalecastWebhooks
import StalecastWire
import Testing

@Suite struct StandardFormatTests {
    @Test func aVersionIsToldAsStandardWebhooksRecommends() async throws {
        let fixture = try FormatterFixture()
        let webhook = try await fixture.register(["url": "http://127.0.0.1:9/hook", "headers": ["X-Team": "apps"]])
        let (request, id) = try fixture.request(FormatterFixture.stale(), webhook)
        #expect(request.method == "POST" && request.url.text == "http://127.0.0.1:9/hook")
        #expect(request.header("content-type") == "application/json")
        #expect(request.header("user-agent") == "stalecast/1.2.3")
        #expect(request.header("x-team") == "apps")
        #expect(request.header("webhook-id") == id)
        #expect(request.header("webhook-request-origin") == nil)
        let json = try request.json
        #expect(json.object?.keys.sorted() == ["data", "timestamp", "type"])
        #expect(json["type"]?.string == "config.stale")
        #expect(json["timestamp"]?.string == FormatterFixture.change().metadata.updateTime.description)
        let data = try #require(json["data"])
        #expect(data["CONFIG_STATE"]?.string == "STALE")
        #expect(data["version"] == .int(7) && data["sinceVersion"] == .int(4) && data["coalesced"] == .int(2))
        #expect(data["changedKeys"] == ["a", "b"])
        #expect(data["cursor"]?.string == "\(fixture.epoch).9")
    }

    @Test func theSignatureIsOverExactlyWhatIsSent() async throws {
        let fixture = try FormatterFixture()
        let settings: JSONValue = ["url": "http://127.0.0.1:9/"]
        let entry = try await fixture.webhooks.create(settings, in: .demo)
        let secret = try #require(
            entry.documentWithSecret(at: fixture.now)["signing"]?["secret"]?.string)
        let (request, id) = try fixture.request(FormatterFixture.stale(), entry.webhook)
        try SignatureCheck(key: VerificationKey(secret)).verify(
            messageID: id, timestamp: try #require(request.header("webhook-timestamp")),
            signatures: try #require(request.header("webhook-signature")), body: request.body ?? [], at: fixture.now)
    }

    @Test func theNextAttemptHasNewKeysAndNewRules() async throws {
        let fixture = try FormatterFixture()
        let webhook = RegisteredWebhook(try await fixture.register(["url": "http://127.0.0.1:9/"]))
        let delivery = Delivery(webhook: webhook.webhook.id, content: FormatterFixture.stale())
        let allows = fixture.webhooks.policy(of: .public)
        func attempt() throws -> (signatures: Int, isAllowed: Bool) {
            let plan = try fixture.formatter.request(for: delivery, webhook: webhook, at: fixture.now)
            guard case .ready(let request, _) = plan else { return (0, false) }
            let signatures = request.header("webhook-signature")?.split(separator: " ").count ?? 0
            return (signatures, request.policy == allows)
        }
        #expect(try attempt() == (1, true))
        _ = try await fixture.webhooks.rotateSecret(of: webhook.webhook.id, in: .demo, [:])
        #expect(try attempt() == (2, true))
        fixture.webhooks.setRules(try fixture.registry.rules(allowed: []), maxPerProject: 100)
        #expect(try attempt() == (2, false))
        fixture.registry.advance(by: 86_400)
        #expect(try attempt() == (1, false))
        try await fixture.webhooks.delete(webhook.webhook.id, in: .demo, etag: nil)
        #expect(throws: AttemptProblem.self) { try attempt() }
    }

    @Test func everyAttemptForAVersionHasOneIDAndANewTime() async throws {
        let fixture = try FormatterFixture()
        let webhook = try await fixture.register(["url": "http://127.0.0.1:9/"])
        let (first, id) = try fixture.request(FormatterFixture.stale(), webhook)
        fixture.registry.advance(by: 60)
        let (second, again) = try fixture.request(FormatterFixture.stale(), webhook, attempt: 2)
        #expect(id == again)
        #expect(first.header("webhook-timestamp") != second.header("webhook-timestamp"))
        #expect(first.header("webhook-signature") != second.header("webhook-signature"))
        let newer = FormatterFixture.stale(FormatterFixture.change(version: 8, sequence: 10))
        #expect(try fixture.request(newer, webhook).1 != id)
        #expect(id.utf8.allSatisfy { $0.isASCIIAlphanumeric || $0 == UInt8(ascii: "_") })
    }

    @Test func receiversWithDifferentPastsGetDifferentBodies() async throws {
        let fixture = try FormatterFixture()
        let webhook = try await fixture.register(["url": "http://127.0.0.1:9/"])
        let (since4, _) = try fixture.request(FormatterFixture.stale(since: 4), webhook)
        let (unknown, _) = try fixture.request(FormatterFixture.stale(since: nil, coalesced: 0), webhook)
        #expect(try since4.json["data"]?["sinceVersion"] == .int(4))
        #expect(try unknown.json["data"]?["sinceVersion"] == .null)
    }

    @Test func testsAndNewsAboutWebhooksSayWhatTheyAre() async throws {
        let fixture = try FormatterFixture()
        let webhook = try await fixture.register(["url": "http://127.0.0.1:9/"])
        let nonce = Epoch.random().description
        let test = Delivery.Content.test(nonce: nonce, topic: .pushRC, project: .demo, current: nil)
        #expect(try fixture.request(test, webhook).0.json["type"]?.string == "webhook.test")
        let event = Delivery.OperationalEvent(
            type: "webhook.disabled", project: .demo, time: fixture.now, nonce: "abc", data: ["webhook": "wh_x"])
        let (request, id) = try fixture.request(.operational(event), webhook)
        #expect(try request.json["type"]?.string == "webhook.disabled")
        #expect(try request.json["data"] == ["webhook": "wh_x"])
        #expect(try fixture.request(.operational(event), webhook, attempt: 2).1 == id)
    }
}
