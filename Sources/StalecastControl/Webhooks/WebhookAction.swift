import StalecastWebhooks
import StalecastWire

/// A verb on one webhook; raw values are those of the path.
package enum WebhookAction: String, Hashable, Sendable, CaseIterable {
    /// Sends nothing more until it is resumed; what is owed stays owed.
    case pause
    case resume
    /// Ends the daemon's own disabling.
    case enable
    /// Asks the receiver for its consent again, now.
    case verify
    /// Sends a test message now and tells how it went.
    case test
    /// A new secret, shown in the answer.
    case rotateSecret
    /// Sends a version once more.
    case redeliver
    /// Owes again what was published since a time.
    case recover
    /// Takes dead letters up again.
    case redrive

    /// Whether only the daemon can do it that delivers to the webhook.
    var isOfDelivery: Bool {
        switch self {
        case .enable, .test, .redeliver, .recover, .redrive: true
        case .pause, .resume, .verify, .rotateSecret: false
        }
    }

    /// - Parameter request: the body, an object.
    /// - Returns: the webhook, or the result of the action.
    func perform(
        on entry: RegistryEntry, _ request: JSONValue, _ service: WebhookService
    ) async throws(RegistryProblem) -> JSONValue {
        let webhook = entry.webhook
        switch self {
        case .pause, .resume:
            return await service.document(
                try await service.registry.setPaused(self == .pause, webhook.id, in: webhook.project))
        case .enable:
            guard await service.delivery.enable(webhook.id) else { throw .notFound(webhook.id.description) }
            return await service.document(entry)
        case .verify:
            if webhook.verification.method == .none {
                throw .notNow("the webhook asks for no consent (verification.method is none)")
            }
            return await service.document(try await service.verifier.verify(webhook))
        case .test:
            if !webhook.verification.isSatisfied {
                throw .notNow("the receiver has not given its consent yet; verify it first")
            }
            guard let attempt = await service.delivery.test(webhook.id) else { throw .notFound(webhook.id.description) }
            return ["attempt": attempt.json]
        case .rotateSecret:
            let next = try await service.registry.rotateSecret(of: webhook.id, in: webhook.project, request)
            return await service.document(next, withSecret: true)
        case .redeliver: return try await Self.redeliver(webhook, request, service.delivery)
        case .recover:
            guard let since = request["since"]?.string.flatMap(Timestamp.init) else {
                throw .invalid(field: "since", "must be a time such as 2026-08-20T14:05:09Z")
            }
            return ["deliveries": .int(await service.delivery.recover(webhook.id, since: since))]
        case .redrive: return try await Self.redrive(webhook, request, service)
        }
    }

    /// `{"namespace":"firebase","versionNumber":"7"}`, both optional: a version once more, or the newest.
    private static func redeliver(
        _ webhook: Webhook, _ request: JSONValue, _ delivery: WebhookDelivery
    ) async throws(RegistryProblem) -> JSONValue {
        var namespace = Namespace.firebase
        if let value = request["namespace"], !value.isNull {
            do { namespace = try Namespace(value.string ?? "") } catch {
                throw .invalid(field: "namespace", "\(error)")
            }
        }
        var version: VersionNumber?
        if let value = request["versionNumber"], !value.isNull {
            guard let number = value.int64, number > 0 else {
                throw .invalid(field: "versionNumber", "must be a number from 1")
            }
            version = VersionNumber(clamping: number)
        }
        let scope = Scope(project: webhook.project, namespace: namespace)
        let count = await delivery.redeliver(webhook.id, scope: scope, version: version)
        guard count > 0 else { throw .notNow(whyNothing(scope, version, webhook)) }
        return ["deliveries": .int(count)]
    }

    private static func whyNothing(_ scope: Scope, _ version: VersionNumber?, _ webhook: Webhook) -> String {
        guard let version else { return "nothing of \(scope) that the webhook hears of has been published yet" }
        return webhook.mode == .latest
            ? "a webhook of mode latest is sent the newest version of \(scope) only, which is not \(version)"
            : "version \(version) of \(scope) is not stored, or is none of the webhook's topics"
    }

    /// `{"id":"7"}`: one dead letter; without an id, all.
    private static func redrive(
        _ webhook: Webhook, _ request: JSONValue, _ service: WebhookService
    ) async throws(RegistryProblem) -> JSONValue {
        var letter: Int64?
        if let value = request["id"], !value.isNull {
            guard let id = value.string else {
                throw .invalid(field: "id", "must be a string, as deadLetters lists it")
            }
            letter = Int64(id)
            guard letter != nil else { throw .notNow("the webhook has no dead letter \"\(id.prefix(40))\"") }
        }
        let chosen = letter
        let count = try await service.ask { try await $0.redrive(webhook.id, letter: chosen) }
        if count == 0, let letter { throw .notNow("the webhook has no dead letter \(letter)") }
        return ["deliveries": .int(count)]
    }
}
