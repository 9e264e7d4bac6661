package import StalecastOutbound
package import StalecastWire
import Synchronization

/// Makes the requests of all formats. What is the same for many webhooks is made once; what differs is signed last.
package final class WebhookFormatter: AttemptFormatter {
    private let registry: WebhookRegistry
    private let epoch: Epoch
    private let identity: WebhookFormatter.Sender
    private let tokens: FCMTokens
    private let cache = RenderedMessage.Cache()

    /// - Parameters:
    ///   - epoch: the store's; part of every `webhook-id`.
    ///   - engine: fetches tokens for `fcm`.
    package init(registry: WebhookRegistry, epoch: Epoch, identity: WebhookFormatter.Sender, engine: OutboundEngine) {
        self.registry = registry
        self.epoch = epoch
        self.identity = identity
        tokens = FCMTokens(engine: engine)
    }

    package func request(
        for delivery: Delivery, webhook: RegisteredWebhook, at now: Timestamp
    ) throws(AttemptProblem) -> AttemptPlan {
        let message = try rendered(delivery.content, webhook.webhook, at: now)
        let prepared = prepared(webhook)
        var request = OutboundRequest(prepared.target, sharedHeaders: message.headers)
        request.share(message.body)
        if webhook.webhook.settings.format.isSigned {
            request.signatureLines = try signatureLines(message, prepared.signer, at: now)
        } else {
            switch try tokens.authorization(of: webhook.webhook, prepared.target.terms.policy) {
            case .header(let header): request.headers.append(header)
            case .needed(let fetch): return .needsToken(fetch)
            }
        }
        return .ready(request, messageID: message.id)
    }

    package func answered(status: Int, to request: OutboundRequest, webhook: Webhook) {
        guard webhook.format == .fcm, status == 401 || status == 403 else { return }
        tokens.refused(request, webhook, registry.policy(of: webhook.profile))
    }

    private func prepared(_ registered: RegisteredWebhook) -> RegisteredWebhook.Prepared {
        // Counted before anything is read: a change meanwhile voids what is prepared here.
        let changes = registry.changes
        return registered.prepared.withLock { known in
            if let known, known.changes == changes { return known }
            let webhook = registered.webhook
            let origin = webhook.verification.method == .cloudevents ? [identity.requestOrigin] : []
            let request = OutboundRequest(
                method: "POST", url: webhook.url, headers: webhook.headers + origin,
                limits: OutboundLimits(timeout: webhook.limits.timeout),
                policy: registry.policy(of: webhook.profile), tls: webhook.settings.tls, keptHeaders: Self.keptHeaders)
            let new = RegisteredWebhook.Prepared(
                target: request.target, signer: registry.signer(of: webhook.id), changes: changes)
            known = new
            return new
        }
    }

    /// CloudEvents' question whether requests from us are wanted.
    func consentRequest(_ webhook: Webhook, timeout: Duration) -> OutboundRequest {
        var headers = [identity.userAgent, identity.requestOrigin] + webhook.headers
        if let rate = webhook.limits.maxPerSecond {
            headers.append(OutboundHeader(trusted: "webhook-request-rate", String(Int((rate * 60).rounded(.up)))))
        }
        return OutboundRequest(
            method: "OPTIONS", url: webhook.url, headers: headers, body: nil, limits: OutboundLimits(timeout: timeout),
            policy: registry.policy(of: webhook.profile), tls: webhook.settings.tls,
            keptHeaders: ["webhook-allowed-origin", "webhook-allowed-rate"])
    }

    var origin: String { identity.origin }

    /// Headers of an answer that can say something about delivery.
    private static let keptHeaders: Set<String> = ["retry-after", "location", "webhook-delivery"]

    private func signatureLines(
        _ message: RenderedMessage, _ signer: Signer?, at now: Timestamp
    ) throws(AttemptProblem) -> [UInt8] {
        let signable = message.signable(at: now.microseconds / 1_000_000)
        var lines: [UInt8] = []
        // A signature of each algorithm fits.
        lines.reserveCapacity(signable.lines.count + 96)
        lines.append(contentsOf: signable.lines)
        guard signer?.appendSignatures(of: signable.content, at: now, to: &lines) == true else {
            throw AttemptProblem(.noKey, "the webhook has no valid signing key; rotate its secret")
        }
        return lines
    }

    // MARK: Rendering

    private func rendered(
        _ content: Delivery.Content, _ webhook: Webhook, at now: Timestamp
    ) throws(AttemptProblem) -> RenderedMessage {
        let format = webhook.format
        switch content {
        case .stale(let content):
            return try cache.message(RenderedMessage.Key(content, format)) { () throws(AttemptProblem) in
                let id = MessageID.of(content.change.version, of: content.change.scope, epoch: epoch)
                return try message(
                    id, format, StandardMessage.stale(content, epoch: epoch), CloudEvent(content, id: id),
                    FCMMessage.stale(content.topic))
            }
        case .test(let nonce, let topic, let project, let current):
            let id = MessageID.of("test", nonce: nonce)
            return try message(
                id, format, StandardMessage.test(topic: topic, project: project, current: current, at: now),
                CloudEvent(test: id, topic: topic, project: project, current: current, at: now),
                FCMMessage.test(topic))
        case .operational(let event):
            let id = MessageID.of("operational/\(event.type)", nonce: event.nonce)
            return try message(id, format, StandardMessage.operational(event), CloudEvent(event, id: id))
        case .challenge(let text):
            let id = MessageID.of("challenge", nonce: text)
            return try message(
                id, format, StandardMessage.challenge(text, at: now),
                CloudEvent(challenge: text, id: id, project: webhook.project, at: now))
        }
    }

    /// Makes the message in the format that is asked for. `fcm` is nil for what only the other formats can say.
    private func message(
        _ id: String, _ format: WebhookFormat, _ standard: @autoclosure () -> [UInt8],
        _ event: @autoclosure () -> CloudEvent, _ fcm: @autoclosure () -> [UInt8]? = nil
    ) throws(AttemptProblem) -> RenderedMessage {
        switch format {
        case .standard: return message(id, StandardMessage.contentType, standard())
        case .cloudEventsStructured:
            return message(id, CloudEvent.structuredContentType, event().structuredBody)
        case .cloudEventsBinary:
            let event = event()
            let attributes = event.headers.map { OutboundHeader(trusted: $0.name, CloudEvent.escaped($0.value)) }
            return message(id, CloudEvent.dataContentType, event.binaryBody, attributes)
        case .fcm:
            if let body = fcm() { return message(id, FCMMessage.contentType, body) }
            throw AttemptProblem(.unsupported, "FCM takes neither messages about webhooks nor a challenge")
        }
    }

    private func message(
        _ id: String, _ contentType: String, _ body: [UInt8], _ attributes: [OutboundHeader] = []
    ) -> RenderedMessage {
        let headers = [
            OutboundHeader(trusted: "content-type", contentType), OutboundHeader(trusted: "webhook-id", id),
        ]
        return RenderedMessage(id: id, body: body, headers: headers + attributes + [identity.userAgent])
    }
}

extension WebhookFormatter {
    /// Name of the daemon towards receivers.
    package struct Sender: Sendable {
        let userAgent: OutboundHeader
        let requestOrigin: OutboundHeader
        /// The DNS name in `WebHook-Request-Origin`.
        package let origin: String

        /// - Parameters:
        ///   - version: of the daemon.
        ///   - origin: a DNS name, letters, digits, dots and hyphens only.
        package init(version: String, origin: String) {
            self.origin = origin
            userAgent = OutboundHeader(trusted: "user-agent", "stalecast/\(version)")
            requestOrigin = OutboundHeader(trusted: "webhook-request-origin", origin)
        }
    }
}

extension CloudEvent {
    /// An attribute's value in a header: blanks, quotes, percent signs and what is not ASCII percent-encoded
    /// (CloudEvents' HTTP binding, §3.1.3.2).
    static func escaped(_ value: String) -> String {
        let isPlain = value.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x25 }
        if isPlain { return value }
        var text = ""
        for byte in value.utf8 {
            if (0x21...0x7E).contains(byte), byte != 0x22, byte != 0x25 {
                text.unicodeScalars.append(UnicodeScalar(byte))
            } else {
                text += "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
            }
        }
        return text
    }
}
