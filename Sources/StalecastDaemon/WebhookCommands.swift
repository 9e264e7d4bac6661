import Logging
import StalecastControl
import StalecastWebhooks
import StalecastWire

/// What Control's `webhooks` resource asks, answered from registry and delivery.
struct WebhookCommands: Sendable {
    let registry: WebhookRegistry
    let verifier: WebhookVerifier
    let delivery: DeliveryAccess
    let logger: Logger

    /// - Throws: ``StalecastControl/WebhookRefusal``; the cause of a failure goes to the log.
    func answer(_ project: ProjectID, _ command: WebhookCommand) async throws(WebhookRefusal) -> JSONValue {
        do {
            return try await perform(command, in: project)
        } catch {
            if case .storage(let cause) = error {
                logger.error("webhook database failed", metadata: ["error": "\(cause)"])
            }
            throw WebhookRefusal(error)
        }
    }

    private func perform(
        _ command: WebhookCommand, in project: ProjectID
    ) async throws(RegistryProblem) -> JSONValue {
        switch command {
        case .list(let page): return try await list(page, project)
        case .create(let document):
            let entry = try await registry.create(document, in: project)
            return await show(entry, entry.documentWithSecret(at: .now()))
        case .get(let id): return await show(try entry(id, project))
        case .update(let id, let document, let mask, let etag):
            return await show(
                try await registry.update(try self.id(id), in: project, document, mask: mask, etag: etag))
        case .delete(let id, let etag):
            try await registry.delete(try self.id(id), in: project, etag: etag)
            return [:]
        case .act(let id, let action, let request):
            return try await act(action, try entry(id, project), request)
        case .attempts(let id, let page):
            return try await delivery.attempts(try entry(id, project).webhook.id, page.size, page.token)
        case .deadLetters(let id, let page):
            return try await delivery.deadLetters(try entry(id, project).webhook.id, page.size, page.token)
        }
    }

    private func act(
        _ action: WebhookAction, _ entry: RegistryEntry, _ request: JSONValue
    ) async throws(RegistryProblem) -> JSONValue {
        let webhook = entry.webhook
        switch action {
        case .pause: return await show(try await registry.setPaused(true, webhook.id, in: webhook.project))
        case .resume: return await show(try await registry.setPaused(false, webhook.id, in: webhook.project))
        case .enable:
            try await delivery.enable(webhook.id)
            return await show(entry)
        case .verify:
            if webhook.verification.method == .none {
                throw .notNow("the webhook asks for no consent (verification.method is none)")
            }
            return await show(try await verifier.verify(webhook))
        case .test:
            if !webhook.verification.isSatisfied {
                throw .notNow("the receiver has not given its consent yet; verify it first")
            }
            return try await delivery.test(webhook.id)
        case .rotateSecret:
            let next = try await registry.rotateSecret(of: webhook.id, in: webhook.project, request)
            return await show(next, next.documentWithSecret(at: .now()))
        case .redeliver: return try await delivery.redeliver(webhook, try RedeliverRequest(request, webhook))
        case .recover: return try await delivery.recover(webhook, try Self.since(request))
        case .redrive: return try await delivery.redrive(webhook.id, try Self.deadLetter(request))
        }
    }

    // MARK: Documents

    private func entry(_ id: String, _ project: ProjectID) throws(RegistryProblem) -> RegistryEntry {
        try registry.entry(try self.id(id), in: project)
    }

    private func id(_ text: String) throws(RegistryProblem) -> WebhookID {
        guard let id = WebhookID(text) else { throw .notFound(String(text.prefix(80))) }
        return id
    }

    private func show(_ entry: RegistryEntry, _ document: JSONObject? = nil) async -> JSONValue {
        var object = document ?? entry.document(at: .now())
        let view = await delivery.view(entry.webhook)
        object["state"] = view.state.json
        object["delivery"] = view.figures
        return .object(object)
    }

    private func list(
        _ page: WebhookCommand.Page, _ project: ProjectID
    ) async throws(RegistryProblem) -> JSONValue {
        var entries = registry.entries(of: project)
        if let token = page.token {
            guard let last = PageToken(token) else {
                throw .invalid(field: "pageToken", "is not one this server gave out")
            }
            entries = Array(entries.drop { PageToken($0.webhook) <= last })
        }
        let shown = entries.prefix(page.size)
        var documents: [JSONValue] = []
        for entry in shown { documents.append(await show(entry)) }
        var object: JSONObject = ["webhooks": .array(documents)]
        if shown.count < entries.count, let last = shown.last {
            object["nextPageToken"] = .string(PageToken(last.webhook).text)
        }
        return .object(object)
    }

    // MARK: Requests

    private static func since(_ request: JSONValue) throws(RegistryProblem) -> Timestamp {
        guard let since = request["since"]?.string.flatMap(Timestamp.init) else {
            throw .invalid(field: "since", "must be a time such as 2026-08-20T14:05:09Z")
        }
        return since
    }

    private static func deadLetter(_ request: JSONValue) throws(RegistryProblem) -> String? {
        guard let value = request["id"], !value.isNull else { return nil }
        guard let id = value.string else { throw .invalid(field: "id", "must be a string, as deadLetters lists it") }
        return id
    }
}

/// The last webhook of a page: webhooks are listed oldest first.
private struct PageToken: Comparable {
    private let createdAt: Timestamp
    private let id: WebhookID

    init(_ webhook: Webhook) {
        createdAt = webhook.createdAt
        id = webhook.id
    }

    init?(_ text: String) {
        let parts = text.split(separator: "-", maxSplits: 1)
        guard parts.count == 2, let micros = Int64(parts[0]), let id = WebhookID(parts[1]) else { return nil }
        createdAt = Timestamp(microseconds: micros)
        self.id = id
    }

    var text: String { "\(createdAt.microseconds)-\(id)" }

    static func < (a: Self, b: Self) -> Bool { (a.createdAt, a.id) < (b.createdAt, b.id) }
}

extension WebhookRefusal {
    fileprivate init(_ problem: RegistryProblem) {
        switch problem {
        case .invalid(let field, let sentence): self = .invalid(field: field, sentence)
        case .notFound: self = .notFound(problem.description)
        case .changedMeanwhile: self = .changedMeanwhile(problem.description)
        case .configured, .notNow: self = .notNow(problem.description)
        case .tooMany: self = .tooMany(problem.description)
        case .storage: self = .unavailable(problem.description)
        }
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
