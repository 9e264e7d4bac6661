package import StalecastHub
package import StalecastWire

/// Why a request is not served; `sentence` goes to the client.
package struct Refusal: Error, Equatable {
    package let status: Int
    package let sentence: String

    static let unknownTopic = Refusal(status: 404, sentence: "no such topic")
    static func badRequest(_ sentence: String) -> Refusal { Refusal(status: 400, sentence: sentence) }
}

/// A request for a stream or a poll, understood: what both halves of Edge serve.
package struct StreamRequest: Sendable, Equatable {
    package enum Kind: Sendable {
        case events, poll
        /// Firebase's `:streamFetchInvalidations`; its only topic is the scope's hidden one.
        case invalidations
    }

    package var kind: Kind
    /// Without repetitions, in the order given; at least one.
    package var topics: [TopicName]
    package var resume: ResumePoint
    /// How long a poll wants to be held, in milliseconds; nil leaves it to the server.
    package var waitMs: Int?
    /// False for HTTP/1.0, whose streams end with the connection.
    package var isHTTP11: Bool
    /// Whether the connection stays open after a poll's answer.
    package var keepAlive: Bool
    package var origin: String?
    /// A poll that times out is answered 304 instead of an empty 200.
    package var wantsNotModified = false
}

/// The header fields a stream request is made from.
package struct StreamHeaders: Equatable {
    package var lastEventID: String?
    package var origin: String?
    package var ifNoneMatch: String?
    package var isHTTP11 = true
    package var keepAlive = true
}

extension StreamRequest {
    /// Reads the query of `/v1/events` or `/v1/poll`.
    ///
    /// `topic` (repeated or separated by commas), `last_event_id` or `cursor` (the header wins), `have` (a version
    /// number), `wait` (`55s`, `500ms`, or seconds). Other names are ignored.
    package init(
        kind: Kind, query: some Collection<UInt8>, headers: StreamHeaders, maxTopics: Int
    ) throws(Refusal) {
        var topics: [TopicName] = []
        var resume = ResumePoint()
        var waitMs: Int?
        var rest = query[...]
        while !rest.isEmpty {
            let end = rest.firstIndex(of: UInt8(ascii: "&")) ?? rest.endIndex
            let item = rest[..<end]
            rest = rest[end...].dropFirst()
            guard let equals = item.firstIndex(of: UInt8(ascii: "=")) else { continue }
            let value = try Self.decode(item[equals...].dropFirst())
            switch String(decoding: item[..<equals], as: UTF8.self) {
            case "topic": try Self.add(value, to: &topics)
            case "last_event_id", "lastEventId", "cursor": resume.cursor = value.isEmpty ? nil : value
            case "have": resume.have = try Self.version(value)
            case "wait": waitMs = try Self.milliseconds(value)
            default: break
            }
        }
        guard !topics.isEmpty else { throw .badRequest("name a topic, for example ?topic=PUSH_RC") }
        guard topics.count <= maxTopics else { throw .badRequest("at most \(maxTopics) topics on one stream") }
        if let id = headers.lastEventID, !id.isEmpty { resume.cursor = id }
        if resume.cursor == nil, kind == .poll, let tag = headers.ifNoneMatch { resume.cursor = Self.unquoted(tag) }
        self.init(
            kind: kind, topics: topics, resume: resume, waitMs: waitMs, isHTTP11: headers.isHTTP11,
            keepAlive: headers.keepAlive, origin: headers.origin, wantsNotModified: headers.ifNoneMatch != nil)
    }

    private static func add(_ names: String, to topics: inout [TopicName]) throws(Refusal) {
        for text in names.split(separator: ",") {
            let name: TopicName
            do { name = try TopicName(String(text)) } catch { throw .badRequest(error.description) }
            if !topics.contains(name) { topics.append(name) }
        }
    }

    private static func version(_ text: String) throws(Refusal) -> VersionNumber {
        guard let version = VersionNumber(text), version >= 0 else {
            throw .badRequest("have is a version number, 0 or more")
        }
        return version
    }

    private static func milliseconds(_ text: String) throws(Refusal) -> Int {
        let (digits, unit) =
            text.hasSuffix("ms") ? (text.dropLast(2), 1) : (text.hasSuffix("s") ? text.dropLast(1) : text[...], 1000)
        guard let count = Int(digits), count >= 0, count <= 86_400_000 else {
            throw .badRequest("wait is a number of seconds, for example 55s")
        }
        return count * unit
    }

    private static func unquoted(_ tag: String) -> String? {
        let bare = tag.hasPrefix("W/") ? tag.dropFirst(2) : tag[...]
        let inner = bare.count >= 2 && bare.hasPrefix("\"") && bare.hasSuffix("\"") ? bare.dropFirst().dropLast() : bare
        return inner.isEmpty || inner == "*" ? nil : String(inner)
    }

    private static func decode(_ bytes: some Collection<UInt8>) throws(Refusal) -> String {
        if bytes.allSatisfy({ $0 < 0x80 && $0 != UInt8(ascii: "%") && $0 != UInt8(ascii: "+") }) {
            return String(decoding: bytes, as: UTF8.self)
        }
        var decoded: [UInt8] = []
        decoded.reserveCapacity(bytes.count)
        var rest = bytes.makeIterator()
        while let byte = rest.next() {
            if byte == UInt8(ascii: "%") {
                guard let high = rest.next().flatMap(hexDigit), let low = rest.next().flatMap(hexDigit) else {
                    throw .badRequest("a % in the query must be followed by two hexadecimal digits")
                }
                decoded.append(high << 4 | low)
            } else {
                decoded.append(byte == UInt8(ascii: "+") ? 0x20 : byte)
            }
        }
        guard let text = String(validating: decoded, as: UTF8.self) else {
            throw .badRequest("the query is not valid UTF-8")
        }
        return text
    }

    private static func hexDigit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x37
        case 0x61...0x66: byte - 0x57
        default: nil
        }
    }
}
