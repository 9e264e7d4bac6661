package import NIOCore
package import StalecastWire

/// The finished answer to every instance with one outcome of a version's conditions: bytes that requests share.
package struct FetchRendering: Sendable {
    /// As on the wire, unquoted.
    package let etag: String
    /// The answer for those that hold something else.
    package let update: FetchBytes
    /// The answer for those whose `If-None-Match` is ``etag``.
    package let unchanged: FetchBytes

    /// What the rendering takes in memory.
    package var byteCount: Int { update.byteCount + unchanged.byteCount }

    /// - Parameters:
    ///   - content: `entries`, `personalizationMetadata` and so on; whatever is empty is left out, and nothing at
    ///     all is `EMPTY_CONFIG`.
    ///   - version: 0 while the scope has no template.
    package init(_ content: FetchContent, version: VersionNumber, scope: Scope, projectNumber: UInt64) {
        let number = JSONValue.string(String(version))
        let hash = JavaHash.of(content.canonicalText(version: number))
        etag = "etag-\(projectNumber)-\(scope.namespace)-fetch-\(hash)"
        update = FetchBytes(body: .object(content.body(version: number)), state: content.state, etag: etag)
        unchanged = FetchBytes(
            body: ["state": .string(FetchContent.State.noChange.rawValue), "templateVersion": number],
            state: .noChange, etag: etag)
    }
}

/// What a fetch tells an instance beside the version.
package struct FetchContent {
    var state: State
    /// Without the empty ones, by their names on the wire.
    var members: JSONObject

    /// Raw values are on the wire.
    package enum State: String, Sendable, CaseIterable {
        case update = "UPDATE"
        case noChange = "NO_CHANGE"
        case noTemplate = "NO_TEMPLATE"
        case emptyConfig = "EMPTY_CONFIG"

        /// Its place among all.
        var index: Int {
            switch self {
            case .update: 0
            case .noChange: 1
            case .noTemplate: 2
            case .emptyConfig: 3
            }
        }
    }

    static let noTemplate = FetchContent(state: .noTemplate, members: [:])

    /// The state follows from whether there is anything.
    package init(members: JSONObject) {
        self.init(state: members.isEmpty ? .emptyConfig : .update, members: members)
    }

    private init(state: State, members: JSONObject) {
        self.state = state
        self.members = members
    }

    /// Everything a client keeps, which the ETag must stand for.
    func canonicalText(version: JSONValue) -> String {
        var all = members
        all["templateVersion"] = version
        return JSONValue.object(all).text(JSONStyle(asciiOnly: false, sortedKeys: true))
    }

    /// iOS keeps the personalization it had when an update is silent about it, so an update never is.
    func body(version: JSONValue) -> JSONObject {
        var body = members
        body["state"] = .string(state.rawValue)
        body["templateVersion"] = version
        if state == .update, body["personalizationMetadata"] == nil { body["personalizationMetadata"] = [:] }
        return body
    }
}

/// A body and the constant part of its head.
package struct FetchBytes: Sendable {
    /// Status line and whole header lines, open for more lines.
    package let head: ByteBuffer
    package let body: ByteBuffer
    /// What the body says.
    package let state: FetchContent.State

    var byteCount: Int { head.readableBytes + body.readableBytes }

    init(body json: JSONValue, state: FetchContent.State, etag: String) {
        self.state = state
        body = ByteBuffer(bytes: json.encoded(JSONStyle(asciiOnly: false)))
        head = ByteBuffer(
            string: """
                HTTP/1.1 200 OK\r
                Content-Type: application/json; charset=utf-8\r
                Content-Length: \(body.readableBytes)\r
                Cache-Control: no-store\r
                X-Content-Type-Options: nosniff\r
                ETag: \(etag)\r

                """)
    }

    /// The whole head of one answer.
    ///
    /// - Parameter fields: lines for this request alone, each ending in CRLF.
    func head(date: String, fields: String) -> ByteBuffer {
        var head = ByteBuffer()
        head.reserveCapacity(self.head.readableBytes + date.utf8.count + fields.utf8.count + 10)
        head.writeImmutableBuffer(self.head)
        head.writeStaticString("Date: ")
        head.writeString(date)
        head.writeStaticString("\r\n")
        head.writeString(fields)
        head.writeStaticString("\r\n")
        return head
    }
}
