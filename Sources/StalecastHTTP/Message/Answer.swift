package import StalecastWire

/// A body that an answer writes piece by piece, server-sent events for example: `run` writes them and returns at their
/// end. It is cancelled when the client goes or the daemon stops.
package final class EventFeed: Hashable, Sendable {
    /// Writes a piece, of events a whole one; false when the client has not taken the one before, and nothing was
    /// written.
    package typealias Send = @Sendable ([UInt8]) async -> Bool

    package let run: @Sendable (Send) async -> Void
    /// Bytes of the body, for a client to notice that it was cut off; nil for events, which have no end of their own.
    package let length: Int?

    package init(length: Int? = nil, _ run: @escaping @Sendable (Send) async -> Void) {
        (self.run, self.length) = (run, length)
    }

    package static func == (a: EventFeed, b: EventFeed) -> Bool { a === b }
    package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

/// A complete answer, independent of the connection that sends it.
package struct Answer: Hashable, Sendable {
    package var status: Int
    package var contentType: String
    /// Header lines of this answer's own, each ending in CRLF.
    package var fields = ""
    package var body: [UInt8]
    /// `Cache-Control`. Default `no-store`: an answer is for one client, or of this moment.
    package var caching = "no-store"
    /// Ends the connection after the answer. Default false.
    package var closesConnection = false
    /// Events in place of ``body``; nil for an answer with an end.
    package var events: EventFeed?

    package static let jsonType = "application/json; charset=utf-8"

    package init(status: Int = 200, contentType: String, body: [UInt8]) {
        self.status = status
        self.contentType = contentType
        self.body = body
    }

    package init(status: Int = 200, _ json: JSONValue) {
        self.init(status: status, contentType: Self.jsonType, body: json.encoded(.pretty) + [0x0A])
    }

    /// Answer to OPTIONS: the methods that a path allows.
    package static func options(_ allowed: [String]) -> Answer {
        var answer = Answer(status: 204, contentType: "", body: [])
        answer.add("Allow", allowed.joined(separator: ", "))
        return answer
    }

    /// - Parameter value: made here, never by a client: it is written as it is.
    package mutating func add(_ name: String, _ value: String) { fields += "\(name): \(value)\r\n" }
}
