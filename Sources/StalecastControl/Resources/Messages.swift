import StalecastAccess
import StalecastHTTP
import StalecastHub
import StalecastStore
import StalecastWire

extension Call {
    /// `POST messages:send` in the shape of FCM's HTTP v1 API.
    func sendMessage() async throws(GoogleError) -> Answer {
        let project = try project()
        let request = try MessageRequest(body)
        var topics = Grant.Topics.all
        if case .topic(let name) = request.target { topics = .named(name) }
        guard let principal, control.may(principal, .publish, project: names["project"], topics) else {
            throw .forbidden
        }
        // FCM makes topics of all names that are well formed, and so do we: an undeclared one has no subscribers. "Not
        // found" would make senders forget their tokens.
        let validatesOnly = try query.flag("validateOnly")
        if request.validateOnly || validatesOnly {
            note.onlyChecked()
            return Self.sent(project, "fake_message_id")
        }
        note.set("target", .string(request.target.words))
        let id = Self.messageID()
        await control.store.keep(
            SentMessage(
                project: project, name: "projects/\(project)/messages/\(id)", time: .now(),
                target: request.target.words, keys: request.data.keys.sorted(), sender: person))
        if let relay = control.relay {
            guard await relay.send(request, in: project) else { throw Self.notRelayed }
        } else {
            control.hub.send(DataMessage(target: request.target, in: project, data: request.data))
        }
        return Self.sent(project, id)
    }

    /// `GET messages`: who sent what to whom, newest first; all that is kept of the project.
    func listMessages() async throws(GoogleError) -> Answer {
        let project = try project()
        let size = try pageSize(TemplateStore.mostMessages, most: TemplateStore.mostMessages)
        do {
            let found = try await control.store.messages(of: project, limit: size)
            return Answer(["messages": .array(found.map { .object($0.json) })])
        } catch {
            throw OutcomeMapping().answer(to: error, commits: false, projectNumber: 0)
        }
    }

    private static let notRelayed = GoogleError(
        504, "DEADLINE_EXCEEDED",
        "The cluster's etcd did not take the message, or did not say so; some nodes may have sent it."
    ).with(detail: OutcomeMapping.outcome("MESSAGE_PENDING", "unknown"))

    private static func sent(_ project: ProjectID, _ id: String) -> Answer {
        Answer(["name": .string("projects/\(project)/messages/\(id)")])
    }

    /// Id like FCM's: decimal, growing with time. The random tail keeps two in one microsecond apart.
    private static func messageID() -> String {
        "\(Timestamp.now().microseconds)\(Int.random(in: 100...999))"
    }

    // MARK: Topics

    /// `GET topics`: the topics bound to a scope of the project, with their subscribers by transport.
    func listTopics() async throws(GoogleError) -> Answer {
        let project = try project()
        let presence = await control.reports.presence(project, nil)
        let bound = control.hub.bindings
            .map { TopicBinding(name: $0.name, scopes: $0.scopes.filter(isVisible), keys: $0.keys) }
            .filter { $0.scopes.contains { $0.project == project } }
        return Answer(["topics": .array(bound.map { Self.json($0, presence[$0.name] ?? [:]) })])
    }

    private func isVisible(_ scope: Scope) -> Bool { principal?.may(.read, in: scope) ?? false }

    private static func json(_ topic: TopicBinding, _ subscribers: [String: Int]) -> JSONValue {
        var counts: JSONObject = ["sse": 0, "poll": 0]
        for transport in subscribers.keys.sorted() { counts[transport] = subscribers[transport].map(JSONValue.int) }
        return [
            "name": .string(topic.name.description), "scopes": .texts(topic.scopes),
            "keys": topic.keys.isEmpty ? nil : .texts(topic.keys),
            "subscribers": .object(counts),
        ]
    }
}

extension DataMessage.Target {
    /// Target as the sender named it.
    fileprivate var words: String {
        switch self {
        case .topic(let name): name.description
        case .condition(let condition): "\(condition)"
        }
    }
}
