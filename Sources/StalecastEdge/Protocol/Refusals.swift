import StalecastWire

/// Whole answers to what is not served now.
enum Refusals {
    /// An event stream that ends at once, with the delay after which to come back.
    static func stream(isHTTP11: Bool, cors: String, retryMs: Int, date: String) -> [UInt8] {
        let close = isHTTP11 ? "Connection: close\r\n" : ""
        var bytes = ResponseHead.stream(isHTTP11: isHTTP11, cors: cors + close, date: date)
        SSEDialect(isHTTP11: isHTTP11).appendEnd(retryMs: retryMs, to: &bytes)
        return bytes
    }

    /// 503 with `Retry-After`, for everything but streams.
    static func overloaded(cors: String = "", retrySeconds: Int, date: String) -> [UInt8] {
        let refusal = Refusal(status: 503, sentence: "too many connections; try again after the time in Retry-After")
        return ResponseHead.response(
            status: 503, fields: "Retry-After: \(max(1, retrySeconds))\r\n", cors: cors, date: date, keepAlive: false,
            body: ResponseHead.error(refusal))
    }
}
