import Dispatch
import StalecastWebhooks
import StalecastWire

extension DeliveryAccess {
    /// Over the deliveries of this process.
    init(_ delivery: WebhookDelivery) {
        let database = DeliveryQuestions(delivery: delivery)
        self.init(
            view: { webhook in
                guard let status = await delivery.status(of: webhook.id) else {
                    return View(state: webhook.stateBeforeDelivery, figures: nil)
                }
                return View(state: status.state, figures: status.json)
            },
            test: { id async throws(RegistryProblem) in
                guard let attempt = await delivery.test(id) else { throw .notFound(id.description) }
                return ["attempt": attempt.json]
            },
            enable: { id async throws(RegistryProblem) in
                guard await delivery.enable(id) else { throw .notFound(id.description) }
            },
            redeliver: { webhook, request async throws(RegistryProblem) in
                let count = await delivery.redeliver(webhook.id, scope: request.scope, version: request.version)
                guard count > 0 else { throw .notNow(request.whyNothing(for: webhook)) }
                return ["deliveries": .int(count)]
            },
            recover: { webhook, since async throws(RegistryProblem) in
                ["deliveries": .int(await delivery.recover(webhook.id, since: since))]
            },
            redrive: database.redrive, attempts: database.attempts, deadLetters: database.deadLetters)
    }
}

/// What is answered from the delivery database, which blocks: on a queue of its own.
private struct DeliveryQuestions: Sendable {
    let delivery: WebhookDelivery
    private let queue = DispatchQueue(label: "stalecast.deliveries.questions")

    @Sendable func attempts(_ id: WebhookID, _ size: Int, _ token: String?) async throws(RegistryProblem) -> JSONValue {
        let place = try Self.place(token)
        let page = try await ask { try $0.attempts(of: id, limit: size, before: place) }
        return Self.page("attempts", page.attempts.map(\.json), next: page.next)
    }

    @Sendable func deadLetters(
        _ id: WebhookID, _ size: Int, _ token: String?
    ) async throws(RegistryProblem) -> JSONValue {
        let place = try Self.place(token)
        let page = try await ask { try $0.deadLetters(of: id, limit: size, after: place) }
        return Self.page("deadLetters", page.letters.map(\.json), next: page.next)
    }

    @Sendable func redrive(_ id: WebhookID, _ letter: String?) async throws(RegistryProblem) -> JSONValue {
        var number: Int64?
        if let letter {
            number = Int64(letter)
            guard number != nil else { throw .invalid(field: "id", "must be as deadLetters lists it") }
        }
        let count: Int
        do {
            count = try await delivery.redrive(id, letter: number)
        } catch {
            throw .storage(cause: "\(error)")
        }
        if count == 0, let letter { throw .notNow("the webhook has no dead letter \(letter)") }
        return ["deliveries": .int(count)]
    }

    private func ask<Value: Sendable>(
        _ question: @escaping @Sendable (WebhookDelivery) throws -> Value
    ) async throws(RegistryProblem) -> Value {
        let answer: Result<Value, RegistryProblem> = await withCheckedContinuation { continuation in
            queue.async {
                let answer = Result { try question(delivery) }
                continuation.resume(returning: answer.mapError { .storage(cause: "\($0)") })
            }
        }
        return try answer.get()
    }

    private static func place(_ token: String?) throws(RegistryProblem) -> Int64? {
        guard let token, !token.isEmpty else { return nil }
        guard let place = Int64(token), place > 0 else {
            throw .invalid(field: "pageToken", "is not one this server gave out")
        }
        return place
    }

    private static func page(_ name: String, _ items: [JSONValue], next: Int64?) -> JSONValue {
        var object: JSONObject = [name: .array(items)]
        if let next { object["nextPageToken"] = .string(String(next)) }
        return .object(object)
    }
}

extension RedeliverRequest {
    /// Why no delivery came of it.
    fileprivate func whyNothing(for webhook: Webhook) -> String {
        guard let version else { return "nothing of \(scope) that the webhook hears of has been published yet" }
        return webhook.mode == .latest
            ? "a webhook of mode latest is sent the newest version of \(scope) only, which is not \(version)"
            : "version \(version) of \(scope) is not stored, or is none of the webhook's topics"
    }
}

extension Webhook {
    /// Its state as far as the registry knows.
    fileprivate var stateBeforeDelivery: WebhookState {
        if isPaused { return .paused }
        return verification.isSatisfied ? .active : .unverified
    }
}
