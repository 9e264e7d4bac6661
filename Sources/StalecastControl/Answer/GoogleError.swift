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
    /// Headers that go with it: `Retry-After`, `Allow`, `WWW-Authenticate`.
    package var headers: [HeaderField] = []
    /// True when the rest of the connection cannot be trusted or is not worth reading.
    package var closesConnection = false

    package init(_ code: Int, _ status: String, _ message: String) {
        self.code = code
        self.status = status
        self.message = message
    }

    /// The envelope `{"error":{…}}`, pretty-printed as Google does: some clients look for `"code": 403` with its blank.
    package var body: [UInt8] {
        var error: JSONObject = ["code": .int(code), "message": .string(message), "status": .string(status)]
        if !details.isEmpty { error["details"] = .array(details) }
        return JSONValue.object(["error": .object(error)]).encoded(.pretty) + [0x0A]
    }

    package var answer: Answer {
        var answer = Answer(status: code, contentType: Answer.jsonType, body: body)
        answer.headers += headers
        answer.closesConnection = closesConnection
        return answer
    }

    func with(_ name: String, _ value: String) -> GoogleError {
        var copy = self
        copy.headers.append(HeaderField(name, value))
        return copy
    }

    func with(detail: JSONValue) -> GoogleError {
        var copy = self
        copy.details.append(detail)
        return copy
    }

    func closing() -> GoogleError {
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

    package static func notFound(_ message: String) -> GoogleError { .init(404, "NOT_FOUND", message) }

    /// The scope's versions come from a source, which a publish here would contradict.
    package static func fed(_ scope: Scope, by source: String) -> GoogleError {
        GoogleError(
            400, "FAILED_PRECONDITION",
            "The versions of \(scope) come from \(source), and cannot be published or rolled back here: publish there, "
                + "or remove the scope from sources in the configuration.")
    }

    /// Missing or wrong bearer token. The sentence is the same for both, and for every path.
    package static let unauthenticated = GoogleError(
        401, "UNAUTHENTICATED",
        "Request had invalid authentication credentials. Send `Authorization: Bearer <control token>`; "
            + "the daemon wrote the token to control.token in its data directory."
    ).with("WWW-Authenticate", "Bearer realm=\"stalecast\"")

    package static func methodNotAllowed(_ allowed: [String]) -> GoogleError {
        let list = allowed.joined(separator: ", ")
        return GoogleError(405, "UNIMPLEMENTED", "This path answers only \(list).").with("Allow", list)
    }

    package static func bodyTooLarge(limit: Int) -> GoogleError {
        GoogleError(
            413, "INVALID_ARGUMENT", "The request body is larger than \(limit) bytes, as sent or inflated."
        ).closing()
    }

    /// Bytes that are not HTTP this server speaks; the connection ends with it.
    package static func malformed(_ message: String) -> GoogleError { invalidArgument(message).closing() }

    package static let headTooLarge = GoogleError(
        431, "INVALID_ARGUMENT", "The request line and headers are larger than this server accepts."
    ).closing()

    package static let headTimeout = GoogleError(
        408, "DEADLINE_EXCEEDED", "The request's headers did not arrive in time."
    ).closing()

    package static let tooManyConnections = GoogleError(
        503, "UNAVAILABLE", "Too many connections; nothing was read and nothing was done. Try again."
    ).with("Retry-After", "1").closing()

    package static let shuttingDown = GoogleError(
        503, "UNAVAILABLE", "The daemon is stopping; nothing was done. Try again in a moment."
    ).with("Retry-After", "5").closing()
}
