package import StalecastWire

/// An error as Google's APIs spell it: a status code, a sentence for people, a stable word for programs.
package struct GoogleError: Error, Hashable, Sendable {
    /// The HTTP status; `error.code` on the wire.
    package var code: Int
    /// Google's canonical word, for example `INVALID_ARGUMENT`.
    package var status: String
    /// A sentence that says what to do; for templates it begins with a token such as `[VERSION_MISMATCH]:`.
    package var message: String
    /// Typed objects with an `@type`; left out when empty.
    package var details: [JSONValue] = []
    /// Header lines that go with it: `Retry-After`, `Allow`, `WWW-Authenticate`; each ends in CRLF.
    package var fields = ""
    /// True when the rest of the connection cannot be trusted or is not worth reading.
    package var closesConnection = false

    package init(_ code: Int, _ status: String, _ message: String) {
        self.code = code
        self.status = status
        self.message = message
    }

    package init(_ code: Int, _ message: String) {
        let word =
            switch code {
            case 401: "UNAUTHENTICATED"
            case 403: "PERMISSION_DENIED"
            case 404: "NOT_FOUND"
            case 405, 501: "UNIMPLEMENTED"
            case 408: "DEADLINE_EXCEEDED"
            case 429: "RESOURCE_EXHAUSTED"
            case 503: "UNAVAILABLE"
            default: "INVALID_ARGUMENT"
            }
        self.init(code, word, message)
    }

    /// The envelope `{"error":{…}}`, pretty-printed as Google does: some clients look for `"code": 403` with its blank.
    package var body: [UInt8] {
        var error: JSONObject = ["code": .int(code), "message": .string(message), "status": .string(status)]
        if !details.isEmpty { error["details"] = .array(details) }
        return JSONValue.object(["error": .object(error)]).encoded(.pretty) + [0x0A]
    }

    package var answer: Answer {
        var answer = Answer(status: code, contentType: Answer.jsonType, body: body)
        answer.fields = fields
        answer.closesConnection = closesConnection
        return answer
    }

    package func with(_ name: String, _ value: String) -> GoogleError {
        var copy = self
        copy.fields += "\(name): \(value)\r\n"
        return copy
    }

    package func with(detail: JSONValue) -> GoogleError {
        var copy = self
        copy.details.append(detail)
        return copy
    }

    package func closing() -> GoogleError {
        var copy = self
        copy.closesConnection = true
        return copy
    }
}

extension GoogleError {
    package static func invalidArgument(_ message: String) -> GoogleError { .init(400, "INVALID_ARGUMENT", message) }

    /// A request field that is wrong, with `google.rpc.BadRequest` for programs.
    package static func invalidField(_ field: String, _ message: String) -> GoogleError {
        invalidArgument(message).with(detail: [
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [["field": .string(field), "description": .string(message)]],
        ])
    }

    package static func notFound(_ message: String) -> GoogleError { .init(404, message) }

    package static func methodNotAllowed(_ allowed: [String]) -> GoogleError {
        let list = allowed.joined(separator: ", ")
        return GoogleError(405, "This path answers only \(list).").with("Allow", list)
    }

    package static func bodyTooLarge(limit: Int) -> GoogleError {
        GoogleError(413, "The request body is larger than \(limit) bytes, as sent or inflated.").closing()
    }

    // MARK: What the connection itself refuses

    /// Bytes that are not HTTP this server speaks; the connection ends with it.
    package static func malformed(_ message: String) -> GoogleError { invalidArgument(message).closing() }

    /// RFC 9110 §9.1: a method that the server does not know, whatever the path.
    package static let unknownMethod = GoogleError(501, "This server knows no such method.").closing()

    package static let notHTTP = malformed("The request is not valid HTTP/1.1.")

    package static let wantsTLS = malformed("This port speaks TLS: ask for https:// instead of http://.")

    /// A request for another host, as a page makes it that points its own name at this address.
    package static let misdirected = GoogleError(
        421,
        "This server does not answer for that host. Add its name to edge.hosts, or control.hosts, in the configuration, "
            + "or ask for an IP address or localhost."
    ).closing()

    package static let headTooLarge = GoogleError(
        431, "The request line and headers are larger than this server accepts."
    ).closing()

    package static let framingTooLarge = GoogleError(
        413, "The chunk extensions and trailers of the body are larger than this server accepts."
    ).closing()

    package static let headTimeout = GoogleError(408, "The request's headers did not arrive in time.").closing()
    package static let bodyTimeout = GoogleError(408, "The request's body did not arrive in time.").closing()

    package static let tooManyConnections = GoogleError(
        503, "Too many connections; nothing was read and nothing was done. Try again."
    ).with("Retry-After", "1").closing()

    package static let shuttingDown = GoogleError(
        503, "The daemon is stopping; nothing was done. Try again in a moment."
    ).with("Retry-After", "5").closing()
}
