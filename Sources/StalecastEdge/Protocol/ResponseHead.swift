import StalecastWire

/// Response heads as bytes: the same for both halves of Edge.
struct ResponseHead {
    /// What browsers of one origin may see; empty when cross-origin reading is not configured.
    static func corsFields(origin: String?, allowed: [String]) -> String {
        guard !allowed.isEmpty else { return "" }
        if allowed.contains("*") { return "Access-Control-Allow-Origin: *\r\n" + exposed }
        guard let origin, allowed.contains(origin) else { return "Vary: Origin\r\n" }
        return "Access-Control-Allow-Origin: \(origin)\r\nVary: Origin\r\n" + exposed
    }

    private static let exposed = "Access-Control-Expose-Headers: ETag, Retry-After\r\n"

    /// The head of a stream. `X-Accel-Buffering` is nginx's, `no-transform` keeps proxies from compressing.
    static func stream(_ dialect: StreamDialect, cors: String, date: String) -> [UInt8] {
        let type = dialect.isInvalidation ? "application/json" : "text/event-stream"
        let framing = dialect.isHTTP11 ? "Transfer-Encoding: chunked\r\n" : "Connection: close\r\n"
        return Array(
            """
            HTTP/1.1 200 OK\r
            Content-Type: \(type)\r
            Cache-Control: no-store, no-transform\r
            X-Accel-Buffering: no\r
            Date: \(date)\r
            \(cors)\(framing)\r

            """.utf8)
    }

    /// A complete response; `fields` are whole lines ending in CRLF. `bodyless`: a 304 or the answer to HEAD.
    static func response(
        status: Int, type: String = "application/json", fields: String = "", cors: String = "", date: String,
        keepAlive: Bool, isHTTP11: Bool = true, body: some Collection<UInt8>, bodyless: Bool = false
    ) -> [UInt8] {
        let length = status == 304 || status == 204 ? "" : "Content-Length: \(body.count)\r\n"
        let typeLine = length.isEmpty ? "" : "Content-Type: \(type)\r\n"
        let connection = keepAlive ? (isHTTP11 ? "" : "Connection: keep-alive\r\n") : "Connection: close\r\n"
        var bytes = Array(
            """
            HTTP/1.1 \(status) \(reason(status))\r
            \(typeLine)\(length)Cache-Control: no-store\r
            X-Content-Type-Options: nosniff\r
            Date: \(date)\r
            \(fields)\(cors)\(connection)\r

            """.utf8)
        if !bodyless && !length.isEmpty { bytes.append(contentsOf: body) }
        return bytes
    }

    /// The body of a refused request's answer: Google's error envelope.
    static func error(_ refusal: Refusal) -> [UInt8] {
        let status =
            switch refusal.status {
            case 401: "UNAUTHENTICATED"
            case 403: "PERMISSION_DENIED"
            case 404: "NOT_FOUND"
            case 408: "DEADLINE_EXCEEDED"
            case 503: "UNAVAILABLE"
            default: "INVALID_ARGUMENT"
            }
        let error: JSONValue = [
            "code": .int(refusal.status), "message": .string(refusal.sentence), "status": .string(status),
        ]
        return JSONValue.object(["error": error]).encoded(JSONStyle(indent: 2)) + [0x0A]
    }

    private static func reason(_ status: Int) -> String {
        switch status {
        case 200: "OK"
        case 204: "No Content"
        case 304: "Not Modified"
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 408: "Request Timeout"
        case 413: "Content Too Large"
        case 414: "URI Too Long"
        case 431: "Request Header Fields Too Large"
        case 503: "Service Unavailable"
        default: "Error"
        }
    }
}
