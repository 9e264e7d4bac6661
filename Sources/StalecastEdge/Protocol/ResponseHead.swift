import StalecastHTTP

/// Heads of Edge's own: the same for both of its halves.
extension ResponseHead {
    /// Fields that let browsers of one origin read the answer; empty when cross-origin reading is not configured.
    static func corsFields(origin: String?, allowed: [String]) -> String {
        guard !allowed.isEmpty else { return "" }
        if allowed.contains("*") { return "Access-Control-Allow-Origin: *\r\n" + exposed }
        guard let origin, allowed.contains(origin) else { return "Vary: Origin\r\n" }
        return "Access-Control-Allow-Origin: \(origin)\r\nAccess-Control-Allow-Credentials: true\r\nVary: Origin\r\n"
            + exposed
    }

    private static let exposed = "Access-Control-Expose-Headers: ETag, Retry-After\r\n"

    static func stream(_ dialect: StreamDialect, cors: String, date: String) -> [UInt8] {
        let type = dialect.kind == .invalidations ? "application/json" : "text/event-stream"
        let framing = dialect.isHTTP11 ? "Transfer-Encoding: chunked\r\n" : "Connection: close\r\n"
        return stream(type: type, fields: cors + framing, date: date)
    }
}
