import StalecastWire

extension ControlResponder {
    /// `GET topics`: the topics bound to a scope of the project, with their subscribers by transport.
    func listTopics(_ project: ProjectID) async throws(GoogleError) -> Answer {
        let presence = await dependencies.presence()
        let topics = dependencies.topics().filter { topic in topic.scopes.contains { $0.project == project } }
        let body: JSONValue = ["topics": .array(topics.map { Self.json($0, presence[$0.name] ?? [:]) })]
        return Answer(body)
    }

    private static func json(_ topic: TopicSummary, _ subscribers: [String: Int]) -> JSONValue {
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
