import StalecastOutbound
import StalecastTestServers
import StalecastWebhooks
import StalecastWire
import Testing

@Suite struct ConsentTests {
    @Test func aReceiverThatEchoesTheSignedChallengeIsVerified() async throws {
        try await asking("challenge") { request in
            let challenge = (try? JSONValue.parse(Array(request.body.utf8)))?["data"]?["challenge"]?.string ?? ""
            return Self.reply("200 OK", body: #"{"challenge":"\#(challenge)"}"#)
        } _: { server, fixture, webhook in
            #expect(!webhook.isDeliverable)
            let verified = try await fixture.verifier.verify(webhook)
            #expect(verified.webhook.isDeliverable)
            #expect(fixture.formats.webhooks.webhook(webhook.id)?.isDeliverable == true)
            let request = try #require(server.requests.first)
            #expect(request.headers["webhook-signature"]?.hasPrefix("v1,") == true)
        }
    }

    @Test(arguments: [
        ("404 Not Found", "{}", "404"), ("200 OK", #"{"challenge":"another"}"#, "is not the challenge"),
    ])
    func otherAnswersAreNoConsent(status: String, body: String, word: String) async throws {
        try await asking("challenge") { _ in
            Self.reply(status, body: body)
        } _: { _, fixture, webhook in
            await expectRefusal(fixture, webhook, word)
        }
    }

    /// Many servers echo each request; an echo is no consent.
    @Test(arguments: WebhookFormat.allCases.filter(\.isSigned), [true, false])
    func aCopyOfTheRequestIsNoConsent(format: WebhookFormat, isQuoted: Bool) async throws {
        try await asking("challenge", format) { request in
            let copy = JSONValue.object(["json": (try? JSONValue.parse(Array(request.body.utf8))) ?? .null])
            return Self.reply("200 OK", body: isQuoted ? copy.text() : request.body)
        } _: { _, fixture, webhook in
            await expectRefusal(fixture, webhook, "is no consent")
        }
    }

    @Test func theChallengeAloneIsConsentToo() async throws {
        try await asking("challenge") { request in
            let challenge = (try? JSONValue.parse(Array(request.body.utf8)))?["data"]?["challenge"]?.string ?? ""
            return Self.reply("200 OK", body: challenge + "\n")
        } _: { _, fixture, webhook in
            let verified = try await fixture.verifier.verify(webhook).webhook
            #expect(verified.isDeliverable)
        }
    }

    @Test func cloudEventsHandshakeGrantsARate() async throws {
        try await asking("cloudevents") { request in
            guard request.method == "OPTIONS", request.headers["webhook-request-origin"] == "stale.example" else {
                return Self.reply("400 Bad Request")
            }
            return Self.reply("405 Whatever", ["WebHook-Allowed-Origin: stale.example", "WebHook-Allowed-Rate: 120"])
        } _: { _, fixture, webhook in
            let verified = try await fixture.verifier.verify(webhook).webhook
            #expect(verified.isDeliverable && verified.ratePerSecond == 2)
        }
    }

    @Test(arguments: [
        ([], "WebHook-Allowed-Origin"), (["WebHook-Allowed-Origin: other.example"], "another origin"),
        (["WebHook-Allowed-Origin: *", "WebHook-Allowed-Rate: fast"], "WebHook-Allowed-Rate"),
    ])
    func aHandshakeWithoutConsentIsNone(headers: [String], word: String) async throws {
        try await asking("cloudevents") { _ in
            Self.reply("200 OK", headers)
        } _: { _, fixture, webhook in
            await expectRefusal(fixture, webhook, word)
        }
    }

    @Test func aReceiverThatIsNotThereIsDescribedWithoutItsPorts() async throws {
        let fixture = try VerifierFixture()
        let webhook = try await fixture.formats.register([
            "url": "http://127.0.0.1:1/", "verification": ["method": "challenge"],
        ])
        await expectRefusal(fixture, webhook, "could not be asked")
    }

    // MARK: Doing it

    private static func reply(_ status: String, _ headers: [String] = [], body: String = "") -> OriginServer.Reply {
        let head = ["HTTP/1.1 \(status)", "Content-Length: \(body.utf8.count)"] + headers + ["", ""]
        return OriginServer.Reply(bytes: Array((head.joined(separator: "\r\n") + body).utf8))
    }

    private func asking(
        _ method: String, _ format: WebhookFormat = .standard,
        _ answer: @escaping @Sendable (OriginServer.Request) -> OriginServer.Reply,
        _ body: (OriginServer, VerifierFixture, Webhook) async throws -> Void
    ) async throws {
        try await OriginServer.serving(answer) { server in
            let fixture = try VerifierFixture()
            let webhook = try await fixture.formats.register([
                "url": .string(server.url), "verification": ["method": .string(method)],
                "format": .string(format.rawValue),
            ])
            try await body(server, fixture, webhook)
        }
    }

    private func expectRefusal(_ fixture: VerifierFixture, _ webhook: Webhook, _ word: String) async {
        let error = await #expect(throws: RegistryProblem.self) { try await fixture.verifier.verify(webhook) }
        #expect(error?.description.contains(word) == true, "\(String(describing: error))")
        #expect(fixture.formats.webhooks.webhook(webhook.id)?.isDeliverable == false)
    }
}

/// A verifier over a registry of its own.
private struct VerifierFixture {
    let formats: FormatterFixture
    let verifier: WebhookVerifier

    init() throws {
        let formats = try FormatterFixture()
        self.formats = formats
        verifier = WebhookVerifier(
            registry: formats.webhooks, formatter: formats.formatter, engine: formats.engine,
            clock: { formats.now })
    }
}
