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
