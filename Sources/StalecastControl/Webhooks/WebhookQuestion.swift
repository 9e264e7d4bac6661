import StalecastWebhooks
import StalecastWire

/// Question or action for the daemon that delivers to a webhook; in a cluster that may be another node.
struct WebhookQuestion: Sendable {
    /// A list of the delivery database.
    enum List: String { case attempts, deadLetters }

    enum Subject {
        case list(List, size: Int, place: Int64?)
        /// Action with the body of the request, an object.
        case action(WebhookAction, JSONValue)
    }

    let webhook: WebhookID
    let project: ProjectID
    let subject: Subject

    init(_ webhook: WebhookID, in project: ProjectID, _ subject: Subject) {
        (self.webhook, self.project, self.subject) = (webhook, project, subject)
    }

    /// Whether an answer says that something will be done, which the next owner must know.
    var isPromise: Bool {
        guard case .action(let action, _) = subject else { return false }
        return action != .test
    }

    /// Whether the receiver is asked before the answer.
    var isTest: Bool {
        guard case .action(.test, _) = subject else { return false }
        return true
    }

    // MARK: From node to node

    var json: JSONValue {
        let (webhook, project) = (JSONValue.string(webhook.description), JSONValue.string(project.description))
        return switch subject {
        case .list(let list, let size, let place):
            [
                "webhook": webhook, "project": project, "list": .string(list.rawValue), "size": .int(size),
                "place": place.map { .int($0) },
            ]
        case .action(let action, let request):
            ["webhook": webhook, "project": project, "action": .string(action.rawValue), "request": request]
        }
    }

    /// nil for what ``json`` did not make.
    init?(json: JSONValue) {
        guard let webhook = json["webhook"]?.string.flatMap({ WebhookID($0) }),
            let project = json["project"]?.string.flatMap({ try? ProjectID($0) })  // not a name: no question
        else { return nil }
        if let action = json["action"]?.string.flatMap(WebhookAction.init), action.isOfDelivery {
            self.init(webhook, in: project, .action(action, json["request"] ?? [:]))
        } else if let list = json["list"]?.string.flatMap(List.init), let size = json["size"]?.int64, size > 0 {
            let place = json["place"]?.int64
            self.init(webhook, in: project, .list(list, size: Int(min(size, 1000)), place: place))
        } else {
            return nil
        }
    }
}

extension WebhookService {
    /// Has a question answered by the node that delivers.
    func answer(_ question: WebhookQuestion) async throws(RegistryProblem) -> JSONValue {
        if let owners { return try await owners.ask(question) }
        return try await perform(question)
    }

    /// Answers a question here.
    ///
    /// - Parameter room: for the answer, in bytes; a list is as long as fits. nil: there is no limit.
    func perform(_ question: WebhookQuestion, room: Int? = nil) async throws(RegistryProblem) -> JSONValue {
        let entry = try registry.entry(question.webhook, in: question.project)
        switch question.subject {
        case .action(let action, let request): return try await action.perform(on: entry, request, self)
        case .list(let list, var size, let place):
            while true {
                let page = try await page(list, of: question.webhook, size, place)
                guard let room, size > 1, page.encoded().count > room else { return page }
                size = (size + 1) / 2
            }
        }
    }

    private func page(
        _ list: WebhookQuestion.List, of id: WebhookID, _ size: Int, _ place: Int64?
    ) async throws(RegistryProblem) -> JSONValue {
        let (items, next): ([JSONValue], Int64?) = try await ask { delivery in
            switch list {
            case .attempts:
                let page = try delivery.attempts(of: id, limit: size, before: place)
                return (page.attempts.map(\.json), page.next)
            case .deadLetters:
                let page = try delivery.deadLetters(of: id, limit: size, after: place)
                return (page.letters.map(\.json), page.next)
            }
        }
        return [list.rawValue: .array(items), "nextPageToken": next.map { .string(String($0)) }]
    }

    /// `{"state":…,"delivery":…}` of a webhook that is delivered to here; nil for another.
    func status(of id: WebhookID) async -> JSONValue? {
        await delivery.status(of: id).map { ["state": $0.state.json, "delivery": $0.json] }
    }
}

// MARK: Problems from node to node

extension RegistryProblem {
    var json: JSONValue {
        switch self {
        case .invalid(let field, let sentence): ["invalid": .string(field), "text": .string(sentence)]
        case .notFound(let id): ["notFound": .string(id)]
        case .storage(let cause): ["storage": .string(cause)]
        case .away(let cause): ["away": .string(cause)]
        case .elsewhere(let sentence): ["elsewhere": .string(sentence)]
        case .notNow, .changedMeanwhile, .configured, .tooMany: ["notNow": .string(description)]
        }
    }

    /// Reads the form that ``json`` made; anything else is a failure of the node that sent it.
    init(json: JSONValue) {
        func text(_ name: String) -> String? { json[name]?.string }
        let known: RegistryProblem? =
            text("invalid").map { .invalid(field: $0, text("text") ?? "") } ?? text("notFound").map { .notFound($0) }
            ?? text("notNow").map { .notNow($0) } ?? text("away").map { .away(cause: $0) }
            ?? text("elsewhere").map { .elsewhere($0) }
        self = known ?? .storage(cause: text("storage") ?? "another node gave an answer that is none")
    }
}
