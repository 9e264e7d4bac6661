import StalecastOutbound
import StalecastWebhooks
import StalecastWire

/// A formatter over a registry of its own, and a change to tell of.
final class FormatterFixture: Sendable {
    let registry: RegistryFixture
    let webhooks: WebhookRegistry
    let engine: OutboundEngine
    let formatter: WebhookFormatter
    let epoch = Epoch.random()

    init() throws {
        registry = try RegistryFixture()
        webhooks = try registry.open()
        engine = try OutboundEngine()
        let identity = WebhookFormatter.Sender(version: "1.2.3", origin: "stale.example")
        formatter = WebhookFormatter(registry: webhooks, epoch: epoch, identity: identity, engine: engine)
    }

    var now: Timestamp { registry.now }

    func register(_ settings: JSONValue) async throws -> Webhook {
        try await webhooks.create(settings, in: .demo).webhook
    }

    /// The request for `content`, which must not need a token first.
    func request(_ content: Delivery.Content, _ webhook: Webhook, attempt: Int = 1) throws -> (OutboundRequest, String)
    {
        let delivery = Delivery(webhook: webhook.id, content: content, attempt: attempt)
        switch try formatter.request(for: delivery, webhook: RegisteredWebhook(webhook), at: now) {
        case .ready(let request, let id): return (request, id)
        case .needsToken: throw AttemptProblem(.token, "a token is needed first")
        }
    }

    static func change(
        version: VersionNumber = 7, sequence: CommitSequence = 9, type: UpdateType = .incremental,
        rollbackSource: VersionNumber? = nil, description: String = "winter"
    ) -> TemplateChange {
        let metadata = VersionMetadata(
            number: version, updateTime: Timestamp(microseconds: 1_790_000_000_000_000), description: description,
            updateType: type, rollbackSource: rollbackSource)
        return TemplateChange(
            scope: Scope(project: .demo, namespace: .firebase), sequence: sequence, metadata: metadata,
            etag: "etag-123456789012-\(version)", changedKeys: ["a"])
    }

    static func stale(
        _ change: TemplateChange = change(), since: VersionNumber? = 4, coalesced: Int = 2
    ) -> Delivery.Content {
        .stale(
            Delivery.StaleContent(
                topic: .pushRC, change: change, since: since, coalesced: coalesced, changedKeys: ["a", "b"]))
    }
}

extension OutboundRequest {
    /// The only value of the header; nil when it is missing or there twice.
    func header(_ name: String) -> String? {
        let signature = String(decoding: signatureLines, as: UTF8.self).split(separator: "\r\n").map {
            OutboundHeader(trusted: String($0.prefix { $0 != ":" }), String($0.drop { $0 != ":" }.dropFirst(2)))
        }
        let found = ((sharedHeaders?.headers ?? []) + self.headers + signature).filter { $0.name.lowercased() == name }
        return found.count == 1 ? found[0].value : nil
    }

    var json: JSONValue { get throws { try JSONValue.parse(body ?? []) } }
}
