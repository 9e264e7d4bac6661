import StalecastHTTP
import StalecastWire

enum Refusals {
    /// Answer to a request that is to be tried again. Browsers never come back after a refusal by status, so a stream
    /// is opened and ended with a delay. An SDK that pings are for waits longer after each refusal, but not after an
    /// end; everything else that is no stream is refused with 503 and `Retry-After`.
    ///
    /// - Parameters:
    ///   - dialect: of a stream or poll; nil for any other request.
    ///   - version: the newest one, which Firebase's clients want beside the delay; 0 when there is none.
    static func forNow(
        _ dialect: StreamDialect?, version: VersionNumber, cors: String, retryMs: Int, date: String
    ) -> [UInt8] {
        guard let dialect, dialect.kind == .events || dialect.kind == .invalidations else {
            let refusal = GoogleError(503, "not now: too busy, or stopping; try again after Retry-After")
            return whole(refusal, fields: retryAfter(milliseconds: retryMs), cors: cors, date: date)
        }
        let close = dialect.isHTTP11 ? "Connection: close\r\n" : ""
        var bytes = ResponseHead.stream(dialect, cors: cors + close, date: date)
        dialect.appendEnd(retryMs: retryMs, newest: version, to: &bytes)
        return bytes
    }

    /// An answer after which the connection ends.
    static func whole(_ refusal: GoogleError, fields: String = "", cors: String, date: String) -> [UInt8] {
        ResponseHead.response(
            status: refusal.code, fields: fields, cors: cors, date: date, keepAlive: false,
            body: refusal.body)
    }

    /// The header line; in whole seconds, rounded up.
    static func retryAfter(milliseconds: Int) -> String { "Retry-After: \(max(1, (milliseconds + 999) / 1000))\r\n" }
}
