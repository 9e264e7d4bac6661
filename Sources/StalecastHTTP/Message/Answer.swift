package import StalecastWire

/// A complete answer, independent of the connection that sends it.
package struct Answer: Hashable, Sendable {
    package var status: Int
    package var contentType: String
    /// Header lines of this answer's own, each ending in CRLF.
    package var fields = ""
    package var body: [UInt8]
    /// Ends the connection after the answer. Default false.
    package var closesConnection = false

    package static let jsonType = "application/json; charset=utf-8"

    package init(status: Int = 200, contentType: String, body: [UInt8]) {
        self.status = status
        self.contentType = contentType
        self.body = body
    }

    /// JSON for people and programs.
    package init(status: Int = 200, _ json: JSONValue) {
        self.init(status: status, contentType: Self.jsonType, body: json.encoded(.pretty) + [0x0A])
    }

    /// What may be asked of a path, as the answer to OPTIONS.
    package static func options(_ allowed: [String]) -> Answer {
        var answer = Answer(status: 204, contentType: "", body: [])
        answer.add("Allow", allowed.joined(separator: ", "))
        return answer
    }

    /// - Parameter value: made here, never by a client: it is written as it is.
    package mutating func add(_ name: String, _ value: String) { fields += "\(name): \(value)\r\n" }
}
