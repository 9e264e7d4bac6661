package import StalecastWire

/// A header field of an answer.
package struct HeaderField: Hashable, Sendable {
    package let name: String
    package let value: String

    package init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}

/// A complete answer, independent of the server that sends it.
package struct Answer: Hashable, Sendable {
    package var status: Int
    /// In the order they are sent; `Content-Length` is added when it is written.
    package var headers: [HeaderField]
    package var body: [UInt8]
    /// Ends the connection after the answer. Default false.
    package var closesConnection = false

    package static let jsonType = "application/json; charset=utf-8"

    package init(status: Int = 200, contentType: String, body: [UInt8]) {
        self.status = status
        self.body = body
        headers = [
            HeaderField("Content-Type", contentType), HeaderField("Cache-Control", "no-store"),
            HeaderField("X-Content-Type-Options", "nosniff"),
        ]
    }

    /// JSON for people and programs.
    package init(status: Int = 200, _ json: JSONValue) {
        self.init(status: status, contentType: Self.jsonType, body: json.encoded(.pretty) + [0x0A])
    }

    /// The value of the first header of that name, whatever its case.
    package subscript(header: String) -> String? {
        headers.first { $0.name.lowercased() == header.lowercased() }?.value
    }
}
