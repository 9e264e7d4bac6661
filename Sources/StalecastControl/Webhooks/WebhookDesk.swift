import Dispatch
package import Logging
import StalecastHTTP
package import StalecastWebhooks
import StalecastWire

/// What the `webhooks` of the API speak for: the registry, and how delivery goes.
package struct WebhookDesk: Sendable {
    let registry: WebhookRegistry
    let verifier: WebhookVerifier
    let delivery: WebhookDelivery
    private let logger: Logger
    /// For what asks the delivery database, which blocks.
    private let questions = BlockingQueue(label: "stalecast.deliveries.questions")

    package init(registry: WebhookRegistry, verifier: WebhookVerifier, delivery: WebhookDelivery, logger: Logger) {
        self.registry = registry
        self.verifier = verifier
        self.delivery = delivery
        self.logger = logger
    }

    /// Turns a problem into an answer; the cause of a failure goes to the log.
    func answering(
        _ work: () async throws(RegistryProblem) -> JSONValue
    ) async throws(GoogleError) -> Answer {
        do {
            let json = try await work()
            var answer = Answer(json)
            if let etag = json["etag"]?.string { answer.add("ETag", "\"\(etag)\"") }
            return answer
        } catch {
            if case .storage(let cause) = error {
                logger.error("webhook database failed", metadata: ["error": "\(cause)"])
            }
            throw GoogleError(error)
        }
    }

    /// Asks the delivery database off the threads that requests share.
    func ask<Value: Sendable>(
        _ question: @escaping @concurrent @Sendable (WebhookDelivery) async throws -> Value
    ) async throws(RegistryProblem) -> Value {
        do {
            return try await withTaskExecutorPreference(questions) { try await question(delivery) }
        } catch {
            throw .storage(cause: error.databaseWords)
        }
    }

    /// A webhook's document: what is registered, its state, and what is owed to it.
    func document(_ entry: RegistryEntry, withSecret: Bool = false) async -> JSONValue {
        var object = withSecret ? entry.documentWithSecret(at: .now()) : entry.document(at: .now())
        let status = await delivery.status(of: entry.webhook.id)
        object["state"] = (status?.state ?? entry.webhook.stateBeforeDelivery).json
        object["delivery"] = status?.json
        return .object(object)
    }
}

/// Runs what blocks, one after the other, where it takes no thread of the cooperative pool.
private final class BlockingQueue: TaskExecutor {
    private let queue: DispatchQueue

    init(label: String) { queue = DispatchQueue(label: label) }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

extension GoogleError {
    /// A registry's problem, as the API says it.
    package init(_ problem: RegistryProblem) {
        let text = problem.description
        let sentence = text.prefix(1).uppercased() + text.dropFirst() + "."
        switch problem {
        case .invalid(let field, _): self = .invalidField(field, text)
        case .notFound: self = .notFound("Requested entity was not found: \(text).")
        case .changedMeanwhile: self.init(409, "ABORTED", sentence)
        case .configured, .notNow: self.init(400, "FAILED_PRECONDITION", sentence)
        case .tooMany: self.init(429, "RESOURCE_EXHAUSTED", sentence)
        case .storage: self = GoogleError(503, sentence).with("Retry-After", "5")
        }
    }
}

extension Webhook {
    /// Its state as far as the registry knows.
    fileprivate var stateBeforeDelivery: WebhookState {
        if isPaused { return .paused }
        return verification.isSatisfied ? .active : .unverified
    }
}

extension WebhookState {
    /// `{"name":…,"since":…,"reason":…}`.
    var json: JSONValue {
        var object: JSONObject = ["name": .string(name)]
        switch self {
        case .failing(let since): object["since"] = .string(since.description)
        case .disabled(let reason, let since):
            object["since"] = .string(since.description)
            object["reason"] = .string(reason)
        case .active, .unverified, .paused: break
        }
        return .object(object)
    }
}
