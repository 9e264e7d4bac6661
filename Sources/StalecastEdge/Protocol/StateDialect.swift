import StalecastHub
import StalecastWire

/// The body of `/v1/state`: the cursor, and for each scope of the topics the version each topic announced last.
enum StateDialect {
    static func body(_ topics: AdmittedTopics, on board: TopicBoard) -> [UInt8] {
        let state: JSONObject = [
            "cursor": .string(board.head.description),
            "state": .array(topics.known.map { Self.entry(of: board[$0]) }),
            "unknownTopics": topics.unknown.isEmpty ? nil : .array(topics.unknown.map { .string($0.description) }),
        ]
        return JSONValue.object(state).encoded() + [0x0A]
    }

    private static func entry(of topic: Topic) -> JSONValue {
        [
            "topic": .string(topic.name.description), "project": .string(topic.scope.project.description),
            "namespace": .string(topic.scope.namespace.description),
            "latestTemplateVersionNumber": .string(String(topic.latest?.version ?? 0)),
            "etag": topic.latest.map { .string($0.etag) },
            "updateTime": topic.latest.map { .string($0.metadata.updateTime.description) },
        ]
    }
}
