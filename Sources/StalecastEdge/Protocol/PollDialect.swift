import StalecastHub
import StalecastWire

/// The body of a long-poll's answer: `{"cursor","messages":[…]}`; after a cursor we cannot read, `reset`; and
/// `unknownTopics` when some of the names mean nothing. A shared poll's has its `round` too.
enum PollDialect {
    static func body(
        cursor: Cursor, messages: some Sequence<[UInt8]>, reset: Opening.ResetReason? = nil, unknown: [TopicName] = [],
        round: Int64? = nil
    ) -> [UInt8] {
        var bytes = Array("{\"cursor\":\"\(cursor)\",".utf8)
        if let round { bytes.append(contentsOf: "\"round\":\(round),".utf8) }
        if let reset { bytes.append(contentsOf: "\"reset\":{\"reason\":\"\(reset.rawValue)\"},".utf8) }
        if !unknown.isEmpty {
            bytes.append(contentsOf: "\"unknownTopics\":".utf8)
            bytes.append(contentsOf: JSONValue.array(unknown.map { .string($0.description) }).encoded(.wire))
            bytes.append(UInt8(ascii: ","))
        }
        bytes.append(contentsOf: "\"messages\":[".utf8)
        var isFirst = true
        for message in messages {
            if !isFirst { bytes.append(UInt8(ascii: ",")) }
            isFirst = false
            bytes.append(contentsOf: message)
        }
        bytes.append(contentsOf: "]}\n".utf8)
        return bytes
    }

    static func etagField(_ cursor: Cursor) -> String { "ETag: \"\(cursor)\"\r\n" }
}

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
