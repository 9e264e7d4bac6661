import StalecastHTTP
import StalecastHub
import StalecastWire

extension Call {
    /// `POST messages:send` in the shape of FCM's HTTP v1 API.
    func sendMessage() async throws(GoogleError) -> Answer {
        let project = try project()
        let request = try MessageRequest(body)
        // As in FCM, which makes topics of whatever is well formed: one that nobody declared has no subscribers. "Not
        // found" would make senders forget their tokens.
        let validatesOnly = try query.flag("validateOnly")
        if request.validateOnly || validatesOnly { return Self.sent(project, "fake_message_id") }
        control.hub.send(DataMessage(target: request.target, in: project, data: request.data))
        return Self.sent(project, Self.messageID())
    }

    private static func sent(_ project: ProjectID, _ id: String) -> Answer {
        Answer(["name": .string("projects/\(project)/messages/\(id)")])
    }

    /// As FCM's: decimal, growing with time. The random tail keeps two in one microsecond apart.
    private static func messageID() -> String {
        "\(Timestamp.now().microseconds)\(Int.random(in: 100...999))"
    }

    // MARK: Topics

    /// `GET topics`: the topics bound to a scope of the project, with their subscribers by transport.
    func listTopics() async throws(GoogleError) -> Answer {
        let project = try project()
        let presence = await control.presence(project)
        let bound = Dictionary(grouping: control.hub.topics, by: \.name).sorted { $0.key < $1.key }
            .map { name, topics in TopicBinding(name: name, scopes: topics.map(\.scope), keys: topics[0].keys) }
            .filter { binding in binding.scopes.contains { $0.project == project } }
        return Answer(["topics": .array(bound.map { Self.json($0, presence[$0.name] ?? [:]) })])
    }

    private static func json(_ topic: TopicBinding, _ subscribers: [String: Int]) -> JSONValue {
        var counts: JSONObject = ["sse": 0, "poll": 0]
        for transport in subscribers.keys.sorted() { counts[transport] = subscribers[transport].map(JSONValue.int) }
        var object: JSONObject = [
            "name": .string(topic.name.description), "scopes": .array(topic.scopes.map { .string($0.description) }),
        ]
        if !topic.keys.isEmpty { object["keys"] = .array(topic.keys.map { .string($0.description) }) }
        object["subscribers"] = .object(counts)
        return .object(object)
    }
}
