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
        if dialect.isInvalidation {
            let message = Invalidation.json(version, retryIntervalSeconds: max(1, retryMs / 1000))
            dialect.append(message + Invalidation.keepAlive, to: &bytes)
        }
        dialect.appendEnd(retryMs: retryMs, to: &bytes)
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
