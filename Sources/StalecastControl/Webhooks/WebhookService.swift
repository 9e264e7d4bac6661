import Dispatch
package import Logging
import StalecastHTTP
package import StalecastHub
package import StalecastWebhooks
import StalecastWire

/// Service behind the `webhooks` of the API: the registry, and how delivery goes.
package struct WebhookService: Sendable {
    let registry: WebhookRegistry
    let verifier: WebhookVerifier
    let delivery: WebhookDelivery
    /// nil: this daemon delivers to all webhooks.
    private(set) var owners: WebhookOwners?
    /// Knows of the other nodes' deliveries.
    private let rollouts: RolloutTracker
    private let logger: Logger
    /// Queue for questions to the delivery database, which blocks.
    private let questions = BlockingQueue(label: "stalecast.deliveries.questions")

    package init(
        registry: WebhookRegistry, verifier: WebhookVerifier, delivery: WebhookDelivery, rollouts: RolloutTracker,
        logger: Logger
    ) {
        (self.rollouts, self.registry, self.verifier) = (rollouts, registry, verifier)
        (self.delivery, self.logger) = (delivery, logger)
    }

    /// A copy of the service that asks the nodes which deliver.
    package func asking(_ owners: WebhookOwners) -> WebhookService {
        var service = self
        service.owners = owners
        return service
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
            switch error {
            case .storage(let cause): logger.error("webhook database failed", metadata: ["error": "\(cause)"])
            case .away(let cause): logger.error("webhooks cannot be changed", metadata: ["error": "\(cause)"])
            default: break
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

    /// Counts of the webhooks that hear a scope and have a version of it, or a newer one; of all nodes.
    func reach(of scope: Scope, _ version: VersionNumber) async -> WebhookCounts {
        await delivery.reach(of: scope, version) + rollouts.webhooksElsewhere(of: scope, version)
    }

    /// Time that a webhook's receiver may take; zero for a webhook that does not exist.
    func timeout(of id: WebhookID) -> Duration {
        registry.webhook(id)?.limits.timeout ?? .zero
    }

    /// A webhook's document: what is registered, its state, and what is owed to it.
    func document(_ entry: RegistryEntry, withSecret: Bool = false) async -> JSONValue {
        let status = await statuses(of: [entry])[entry.webhook.id]
        return document(entry, status, withSecret: withSecret)
    }

    func documents(_ entries: some Sequence<RegistryEntry>) async -> [JSONValue] {
        let entries = Array(entries)
        let statuses = await statuses(of: entries)
        return entries.map { document($0, statuses[$0.webhook.id], withSecret: false) }
    }

    private func statuses(of entries: [RegistryEntry]) async -> [WebhookID: JSONValue] {
        let ids = entries.map(\.webhook.id)
        if let owners { return await owners.statuses(of: ids) }
        var found: [WebhookID: JSONValue] = [:]
        for id in ids { found[id] = await status(of: id) }
        return found
    }

    private func document(_ entry: RegistryEntry, _ status: JSONValue?, withSecret: Bool) -> JSONValue {
        var object = withSecret ? entry.documentWithSecret(at: .now()) : entry.document(at: .now())
        object["state"] = status?["state"] ?? entry.webhook.stateBeforeDelivery.json
        object["delivery"] = status?["delivery"]
        object["deliveryNode"] = status?["node"]
        object["deliveryProblem"] = status?["problem"]
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
        case .storage, .away, .elsewhere: self = GoogleError(503, sentence).with("Retry-After", "5")
        }
    }
}

extension Webhook {
    /// Its state as far as the registry knows.
    fileprivate var stateBeforeDelivery: WebhookState {
        if settings.isPaused { return .paused }
        return settings.verification.isSatisfied ? .active : .unverified
    }
}

extension WebhookState {
    /// `{"name":…,"since":…,"reason":…}`.
    var json: JSONValue {
        switch self {
        case .failing(let since): ["name": .string(name), "since": .string(since.description)]
        case .disabled(let reason, let since):
            ["name": .string(name), "since": .string(since.description), "reason": .string(reason)]
        case .active, .unverified, .paused: ["name": .string(name)]
        }
    }
}
