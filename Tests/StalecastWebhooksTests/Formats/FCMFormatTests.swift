import CryptoExtras
import StalecastOutbound
import StalecastTestServers
import StalecastWebhooks
import StalecastWire
import Testing

@Suite struct FCMFormatTests {
    @Test func appsOfTheTopicGetExactlyFirebasesData() async throws {
        try await serving { server, fixture, webhook in
            #expect(webhook.url.text == "\(server.url)/v1/projects/push/messages:send")
            try await fetchToken(fixture, webhook)
            let (request, _) = try fixture.request(FormatterFixture.stale(), webhook)
            #expect(request.header("authorization") == "Bearer token-1")
            #expect(request.header("webhook-signature") == nil)
            #expect(
                try request.json
                    == ["message": ["topic": "PUSH_RC", "data": ["CONFIG_STATE": "STALE"]]] as JSONValue)
        }
    }

    @Test func aRefusedTokenIsFetchedAnewAndOnlyOnce() async throws {
        try await serving { server, fixture, webhook in
            var refused: [OutboundRequest] = []
            for expected in ["Bearer token-1", "Bearer token-2"] {
                try await fetchToken(fixture, webhook)
                let request = try fixture.request(FormatterFixture.stale(), webhook).0
                #expect(request.header("authorization") == expected)
                fixture.formatter.answered(status: 503, to: request, webhook: webhook)
                // Others were on their way with the former token.
                for former in refused { fixture.formatter.answered(status: 401, to: former, webhook: webhook) }
                #expect(try fixture.request(FormatterFixture.stale(), webhook).0.header("authorization") == expected)
                fixture.formatter.answered(status: 401, to: request, webhook: webhook)
                refused.append(request)
            }
            #expect(server.requests.count == 2)
        }
    }

    @Test func whereTokensMayBeFetchedIsAskedAnewAfterAReload() async throws {
        try await serving { server, fixture, webhook in
            try fixture.webhooks.setRules(fixture.registry.rules(allowed: []), maxPerProject: 10)
            let error = await #expect(throws: AttemptProblem.self) { try await fetchToken(fixture, webhook) }
            #expect(error?.reason == .token && server.requests.isEmpty)
            try fixture.webhooks.setRules(fixture.registry.rules(), maxPerProject: 10)
            try await fetchToken(fixture, webhook)
            #expect(server.requests.count == 1)
            // What was fetched under other rules is not used either.
            try fixture.webhooks.setRules(fixture.registry.rules(allowed: []), maxPerProject: 10)
            #expect(throws: AttemptProblem.self) { try fixture.request(FormatterFixture.stale(), webhook) }
        }
    }

    @Test func anUpdateToASignedFormatMakesASecretThatItsAnswerShows() async throws {
        try await serving { server, fixture, _ in
            let webhook = try await fixture.register(["format": "fcm", "fcm": ["serviceAccountFile": "push.json"]])
            #expect(webhook.url.text == "https://fcm.googleapis.com/v1/projects/push/messages:send")
            let change: JSONValue = ["format": "standard", "fcm": .null, "url": .string(server.url)]
            let entry = try await fixture.webhooks.update(webhook.id, in: .demo, change, mask: nil, etag: nil)
            #expect(entry.hasNewSecret && entry.keys.count == 1)
            // Only the answer that follows it.
            for change in [change, ["description": "later"]] {
                let later = try await fixture.webhooks.update(webhook.id, in: .demo, change, mask: nil, etag: nil)
                #expect(!later.hasNewSecret && later.keys.map(\.key) == entry.keys.map(\.key))
            }
        }
    }

    @Test func throughTheAPITokensGoToGoogleOnly() async throws {
        try await serving { server, fixture, configured in
            let key: JSONObject = ["serviceAccountFile": "push.json"]
            let elsewhere: [(field: String, url: String?, tokenURL: String?)] = [
                ("url", server.url, nil), ("url", "https://a.example/v1/x", nil),
                ("url", "http://fcm.googleapis.com", nil), ("url", "https://fcm.googleapis.com:8443", nil),
                ("url", "https://fcm.googleapis.com.a.example", nil), ("fcm.tokenUrl", nil, "\(server.url)/token"),
                ("fcm.tokenUrl", nil, "https://a.example/token"),
            ]
            for (field, url, tokenURL) in elsewhere {
                var fcm = key
                fcm["tokenUrl"] = tokenURL.map { .string($0) }
                var document: JSONObject = ["format": "fcm", "fcm": .object(fcm)]
                document["url"] = url.map { .string($0) }
                await refused(field) { try await fixture.register(.object(document)) }
            }
            var fcm = key
            fcm["tokenUrl"] = "https://oauth2.googleapis.com/token"
            let webhook = try await fixture.register(["format": "fcm", "fcm": .object(fcm)])
            await refused("url") {
                let change: JSONValue = ["url": .string(server.url)]
                return try await fixture.webhooks.update(webhook.id, in: .demo, change, mask: nil, etag: nil).webhook
            }
            #expect(configured.url.text.hasPrefix(server.url), "the configuration file may name any host")
        }
    }

    private func refused(_ field: String, _ body: () async throws -> Webhook) async {
        let error = await #expect(throws: RegistryProblem.self) { _ = try await body() }
        guard case .invalid(let named, _)? = error else {
            Issue.record("\(field): \(String(describing: error))")
            return
        }
        #expect(named == field)
    }

    @Test func newsAboutWebhooksHaveNoFormHere() async throws {
        try await serving { _, fixture, webhook in
            let event = Delivery.OperationalEvent(
                type: "webhook.disabled", project: .demo, time: fixture.now, nonce: "abc", data: [:])
            let error = #expect(throws: AttemptProblem.self) { try fixture.request(.operational(event), webhook) }
            #expect(error?.reason == .unsupported)
        }
    }

    @Test func aRefusalOfTheTokenEndpointIsAFailedAttempt() async throws {
        try await serving(status: "400 Bad Request") { _, fixture, webhook in
            let error = await #expect(throws: AttemptProblem.self) { try await fetchToken(fixture, webhook) }
            #expect(error?.reason == .token)
        }
    }

    private struct Unexpected: Error {}

    private func fetchToken(_ fixture: FormatterFixture, _ webhook: Webhook) async throws {
        let delivery = Delivery(webhook: webhook.id, content: FormatterFixture.stale())
        let plan = try fixture.formatter.request(
            for: delivery, webhook: RegisteredWebhook(webhook), at: fixture.now)
        guard case .needsToken(let fetch) = plan else { throw Unexpected() }
        try await fetch()
    }

    /// A token endpoint that gives `token-1`, `token-2`, …, and a webhook of the configuration file that uses it.
    private func serving(
        status: String = "200 OK", _ body: (OriginServer, FormatterFixture, Webhook) async throws -> Void
    ) async throws {
        let given = Counter()
        try await OriginServer.serving { _ in
            let text = #"{"access_token":"token-\#(given.next())","expires_in":3600,"token_type":"Bearer"}"#
            let head =
                "HTTP/1.1 \(status)\r\nContent-Type: application/json\r\nContent-Length: \(text.utf8.count)\r\n\r\n"
            return OriginServer.Reply(bytes: Array((head + text).utf8))
        } _: { server in
            let fixture = try FormatterFixture()
            let key = try _RSA.Signing.PrivateKey(keySize: .bits2048).pemRepresentation
            let file: JSONValue = [
                "type": "service_account", "project_id": "push", "client_email": "a@push.example",
                "private_key": .string(key), "token_uri": .string("\(server.url)/token"),
            ]
            let path = try fixture.registry.write(file.text(), to: "push.json")
            var draft = WebhookDraft()
            try draft.take(
                ["format": "fcm", "url": .string(server.url), "fcm": ["serviceAccountFile": .string(path)]],
                files: .paths)
            try fixture.webhooks.setConfigured([
                ConfiguredWebhook(name: "push", project: .demo, draft: draft, keys: [])
            ])
            try await body(server, fixture, try #require(fixture.webhooks.webhooks.first))
        }
    }
}
