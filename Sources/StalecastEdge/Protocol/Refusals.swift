import StalecastHTTP
import StalecastHub
import StalecastWire

/// Whole answers to what is not served now.
enum Refusals {
    /// A stream that ends at once, with the delay after which to come back.
    ///
    /// - Parameter version: the newest one, which Firebase's clients want beside the delay; 0 when there is none.
    static func stream(
        _ dialect: StreamDialect, version: VersionNumber = 0, cors: String, retryMs: Int, date: String
    ) -> [UInt8] {
        let close = dialect.isHTTP11 ? "Connection: close\r\n" : ""
        var bytes = ResponseHead.stream(dialect, cors: cors + close, date: date)
        dialect.appendEnd(retryMs: retryMs, newest: version, to: &bytes)
        return bytes
    }

    /// 503 with `Retry-After`, for everything but streams.
    static func overloaded(cors: String = "", retryMs: Int, date: String) -> [UInt8] {
        let refusal = GoogleError(503, "not now: too busy, or stopping; try again after Retry-After")
        return whole(refusal, fields: retryAfter(milliseconds: retryMs), cors: cors, date: date)
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
