/// A dispatched server-sent event.
package struct ServerSentEvent: Sendable, Hashable {
    /// The `event` field; `message` when there was none.
    package var type: String
    package var data: String
    /// The last event id in force at dispatch; empty when none was ever set.
    package var lastEventID: String

    package init(type: String = "message", data: String, lastEventID: String = "") {
        (self.type, self.data, self.lastEventID) = (type, data, lastEventID)
    }
}

/// Parses `text/event-stream` as WHATWG HTML §9.2.6 says, from chunks cut anywhere. A trailing event without its
/// blank line is never dispatched, and its id never adopted.
package struct SSEParser: Sendable {
    package enum Output: Sendable, Hashable {
        case event(ServerSentEvent)
        /// A comment's text without the colon.
        case comment(String)
        /// A new reconnect delay in milliseconds.
        case retry(Int)
    }

    /// The line or data grew past `maxBytes`: the stream should be closed.
    package struct TooLong: Error { package let maxBytes: Int }

    /// The id to send as `Last-Event-ID` on reconnect: that of the last *dispatched* block.
    package private(set) var lastEventID: String

    private let maxBytes: Int
    private var line: [UInt8] = []
    private var skipLineFeed = false
    private var atStart = true
    private var pendingID: String
    private var eventType = ""
    private var data: [UInt8] = []
    private var hasData = false

    /// - Parameters:
    ///   - lastEventID: the id a former connection ended with.
    ///   - maxBytes: limit for one line and for one event's data; default 16 MiB.
    package init(lastEventID: String = "", maxBytes: Int = 16 << 20) {
        self.lastEventID = lastEventID
        self.pendingID = lastEventID
        self.maxBytes = maxBytes
    }

    /// Takes the next bytes and returns what they complete, in order.
    package mutating func receive(_ bytes: some Sequence<UInt8>) throws(TooLong) -> [Output] {
        var outputs: [Output] = []
        for byte in bytes {
            // CR, LF and CRLF end a line (WHATWG HTML §9.2.6), and a piece may end between CR and LF.
            if skipLineFeed {
                skipLineFeed = false
                if byte == 0x0A { continue }
            }
            if byte == 0x0A || byte == 0x0D {
                skipLineFeed = byte == 0x0D
                endLine(&outputs)
            } else {
                line.append(byte)
                if line.count + data.count > maxBytes { throw TooLong(maxBytes: maxBytes) }
            }
        }
        return outputs
    }

    private mutating func endLine(_ outputs: inout [Output]) {
        if atStart {
            atStart = false
            if line.starts(with: [0xEF, 0xBB, 0xBF]) { line.removeFirst(3) }
        }
        defer { line.removeAll(keepingCapacity: true) }
        guard let first = line.first else { return dispatch(&outputs) }
        guard first != UInt8(ascii: ":") else {
            outputs.append(.comment(String(decoding: line.dropFirst(), as: UTF8.self)))
            return
        }
        let colon = line.firstIndex(of: UInt8(ascii: ":")) ?? line.endIndex
        var value = line[min(colon + 1, line.endIndex)...]
        if value.first == 0x20 { value = value.dropFirst() }
        take(field: String(decoding: line[..<colon], as: UTF8.self), value: value, &outputs)
    }

    private mutating func take(field: String, value: ArraySlice<UInt8>, _ outputs: inout [Output]) {
        switch field {
        case "data":
            // An empty `data` line makes an event as well: the length of the data does not tell whether there was one.
            if hasData { data.append(0x0A) }
            hasData = true
            data.append(contentsOf: value)
        case "event": eventType = String(decoding: value, as: UTF8.self)
        // The specification ignores an id with NUL.
        case "id": if !value.contains(0) { pendingID = String(decoding: value, as: UTF8.self) }
        case "retry":
            let isNumber = !value.isEmpty && value.allSatisfy { (0x30...0x39).contains($0) }
            if isNumber, let delay = Int(String(decoding: value, as: UTF8.self)) { outputs.append(.retry(delay)) }
        default: break
        }
    }

    private mutating func dispatch(_ outputs: inout [Output]) {
        // A block without data makes no event, but its id counts.
        lastEventID = pendingID
        if hasData {
            let type = eventType.isEmpty ? "message" : eventType
            let text = String(decoding: data, as: UTF8.self)
            outputs.append(.event(ServerSentEvent(type: type, data: text, lastEventID: lastEventID)))
        }
        data.removeAll(keepingCapacity: true)
        hasData = false
        eventType = ""
    }
}
