/// Answers as bytes: the same for every listener.
package enum ResponseHead {
    /// A complete response; `fields` are whole lines ending in CRLF. `bodyless`: the answer to HEAD.
    package static func response(
        status: Int, type: String = "application/json", caching: String = "no-store", fields: String = "",
        cors: String = "", date: String,
        keepAlive: Bool, body: some Collection<UInt8>, bodyless: Bool = false
    ) -> [UInt8] {
        // Content-Length is forbidden with 204, and with 304 would be that of the unsent body (RFC 9110 §8.6).
        let hasBody = status != 304 && status != 204
        var bytes: [UInt8] = []
        bytes.reserveCapacity(320 + fields.utf8.count + cors.utf8.count + (hasBody && !bodyless ? body.count : 0))
        func add(_ text: String) { bytes += text.utf8 }
        add("HTTP/1.1 \(status) ")
        add(reasons[status] ?? "Error")
        if hasBody {
            add("\r\nContent-Type: ")
            add(type)
            add("\r\nContent-Length: ")
            add(String(body.count))
        }
        add("\r\nCache-Control: ")
        add(caching)
        add("\r\nX-Content-Type-Options: nosniff\r\nDate: ")
        add(date)
        add("\r\n")
        add(fields)
        add(cors)
        add(keepAlive ? "\r\n" : "Connection: close\r\n\r\n")
        if hasBody && !bodyless { bytes.append(contentsOf: body) }
        return bytes
    }

    /// The head of a stream. `X-Accel-Buffering` is nginx's, `no-transform` keeps proxies from compressing.
    ///
    /// - Parameter fields: whole lines ending in CRLF, those about the framing among them.
    package static func stream(type: String = "text/event-stream", fields: String, date: String) -> [UInt8] {
        Array(
            """
            HTTP/1.1 200 OK\r
            Content-Type: \(type)\r
            Cache-Control: no-store, no-transform\r
            X-Accel-Buffering: no\r
            Date: \(date)\r
            \(fields)\r

            """.utf8)
    }

    private static let reasons = [
        200: "OK", 202: "Accepted", 204: "No Content", 304: "Not Modified", 308: "Permanent Redirect",
        400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
        408: "Request Timeout", 409: "Conflict", 413: "Content Too Large", 414: "URI Too Long",
        415: "Unsupported Media Type", 421: "Misdirected Request", 429: "Too Many Requests",
        431: "Request Header Fields Too Large", 500: "Internal Server Error", 501: "Not Implemented",
        503: "Service Unavailable", 505: "HTTP Version Not Supported",
    ]
}
