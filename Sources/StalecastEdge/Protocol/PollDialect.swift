import StalecastHub
import StalecastWire

/// The body of a long-poll's answer: `{"cursor","messages":[…]}` and, after a cursor we cannot read, `reset`.
enum PollDialect {
    static func body(cursor: Cursor, messages: some Sequence<[UInt8]>, reset: ResetReason? = nil) -> [UInt8] {
        var bytes = Array("{\"cursor\":\"\(cursor)\",".utf8)
        if let reset { bytes.append(contentsOf: "\"reset\":{\"reason\":\"\(reset.rawValue)\"},".utf8) }
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

    /// How long to hold a poll: as asked within the limit, plus up to a sixteenth so that herds drift apart.
    static func holdMs(wanted: Int?, settings: EdgeSettings, random: inout some RandomNumberGenerator) -> Int {
        let wait = min(wanted ?? settings.pollDefaultWait.milliseconds, settings.pollMaxWait.milliseconds)
        return wait == 0 ? 0 : wait + Int.random(in: 0...wait / 16, using: &random)
    }
}
