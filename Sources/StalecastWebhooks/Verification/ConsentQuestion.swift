import StalecastOutbound
import StalecastWire

/// Asks a receiver whether it wants the requests of a webhook, and understands its answer.
struct ConsentQuestion: Sendable {
    let webhook: Webhook
    let formatter: WebhookFormatter
    let engine: OutboundEngine

    /// One question; at most 10 s.
    ///
    /// - Returns: requests per minute that the receiver grants; nil is no limit.
    /// - Throws: ``RegistryProblem/notNow(_:)`` with a sentence for the owner, which says nothing about ports.
    func ask(at now: Timestamp) async throws(RegistryProblem) -> Int? {
        switch webhook.verification.method {
        case .none: return nil
        case .challenge: return try await challenge(at: now)
        case .cloudevents: return try await handshake()
        }
    }

    private static let timeout = Duration.seconds(10)
    private static let maxAnswerBytes = 4096

    private func challenge(at now: Timestamp) async throws(RegistryProblem) -> Int? {
        let text = Epoch.random().description
        let plan: AttemptPlan
        do {
            let delivery = Delivery(webhook: webhook.id, content: .challenge(text))
            plan = try formatter.request(for: delivery, webhook: RegisteredWebhook(webhook), at: now)
        } catch {
            throw .notNow(error.description)
        }
        guard case .ready(var request, _) = plan else { throw .notNow("this format cannot be verified") }
        request.limits.timeout = Self.timeout
        request.limits.maxBodyBytes = Self.maxAnswerBytes
        let (status, _, body) = try await answer(to: request)
        guard (200..<300).contains(status) else {
            throw .notNow("the receiver answered the challenge with status \(status), not 2xx")
        }
        guard Self.isConsent(body, to: text) else {
            throw .notNow(
                "the receiver's answer is not the challenge it was sent (data.challenge), alone or as "
                    + "{\"challenge\":\"…\"}; a copy of the request is no consent")
        }
        return nil
    }

    /// The challenge alone, or a JSON object with nothing but the member `challenge`. Many servers send back whatever they
    /// get; no request of ours has one of these two forms, so that they agree to nothing by that.
    static func isConsent(_ body: [UInt8], to challenge: String) -> Bool {
        let text = String(decoding: body, as: UTF8.self).trimmingWhitespace()
        if text == challenge { return true }
        // What is not JSON is no consent.
        guard let object = (try? JSONValue.parse(Array(text.utf8)))?.object else { return false }
        return object.count == 1 && object["challenge"]?.string == challenge
    }

    /// CloudEvents' HTTP webhook specification, §4: the status is of no importance, the headers are.
    private func handshake() async throws(RegistryProblem) -> Int? {
        let request = formatter.consentRequest(webhook, timeout: Self.timeout)
        let (_, headers, _) = try await answer(to: request)
        return try Self.consent(headers, origin: formatter.origin)
    }

    /// - Parameter headers: by lower-case name.
    static func consent(_ headers: [String: String], origin: String) throws(RegistryProblem) -> Int? {
        guard let allowed = headers["webhook-allowed-origin"]?.trimmingWhitespace() else {
            throw .notNow("the receiver's answer to OPTIONS has no WebHook-Allowed-Origin")
        }
        guard allowed == "*" || allowed.lowercased() == origin.lowercased() else {
            throw .notNow("the receiver allows another origin than \(origin)")
        }
        guard let rate = headers["webhook-allowed-rate"]?.trimmingWhitespace(), rate != "*" else {
            return nil
        }
        guard let perMinute = Int(rate), perMinute > 0 else {
            throw .notNow("the receiver's WebHook-Allowed-Rate is neither a number of requests per minute nor *")
        }
        return perMinute
    }

    private func answer(
        to request: OutboundRequest
    ) async throws(RegistryProblem) -> (status: Int, headers: [String: String], body: [UInt8]) {
        switch await engine.send(request).result {
        case .answered(let status, let headers, let body, _): return (status, headers, body)
        case .failed(let failure): throw .notNow("the receiver could not be asked: \(failure.ownerText)")
        }
    }
}
