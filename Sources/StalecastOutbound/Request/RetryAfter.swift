package import StalecastWire

/// Time that a server asks to be left alone: `Retry-After` as RFC 9110 §10.2.3 has it, seconds or a date.
package enum RetryAfter {
    /// No origin can silence its source for longer than this.
    package static let longest = Duration.seconds(3600)

    /// - Parameters:
    ///   - header: its value; nil when it is missing.
    ///   - date: the answer's `Date`, against which a date in `Retry-After` is measured: both are the origin's clock,
    ///     ours may be wrong.
    ///   - now: the wall clock. A date in the past is zero.
    /// - Returns: nil when the header is missing or says nothing that can be understood.
    package static func delay(_ header: String?, date: String? = nil, now: Timestamp) -> Duration? {
        let text = (header ?? "").filter { $0 != "\t" }
        let bare = text.drop { $0 == " " }
        guard let first = bare.utf8.first else { return nil }
        if (0x30...0x39).contains(first) { return seconds(bare) }
        guard let moment = HTTPDate.timestamp(String(bare)) else { return nil }
        let base = date.flatMap(HTTPDate.timestamp) ?? now
        let wait = Duration.microseconds(moment.microseconds) - .microseconds(base.microseconds)
        return min(max(wait, .zero), longest)
    }

    private static func seconds(_ text: Substring) -> Duration? {
        let digits = text.reversed().drop { $0 == " " }.reversed()
        guard digits.allSatisfy({ $0.isASCII && $0.isNumber }) else { return nil }
        // More digits than an Int holds is still a number, and a long one.
        guard let seconds = Int(String(digits)), seconds < 3600 else { return longest }
        return .seconds(seconds)
    }
}

/// Dates in HTTP headers: `Sun, 06 Nov 1994 08:49:37 GMT`, the only form that is generated (RFC 9110 §5.6.7).
package enum HTTPDate {
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// nil for anything else, the obsolete forms included.
    package static func timestamp(_ text: String) -> Timestamp? {
        let parts = text.split(separator: " ")
        guard parts.count == 6, parts[0].hasSuffix(","), parts[5] == "GMT", parts[1].utf8.count == 2,
            let month = months.firstIndex(of: String(parts[2]))
        else { return nil }
        let number = month + 1
        return Timestamp("\(parts[3])-\(number < 10 ? "0" : "")\(number)-\(parts[1])T\(parts[4])Z")
    }
}

extension Duration {
    /// The wait that grows: this after the first failure in a row, twice as long after each further one. What chance
    /// makes of it is the caller's.
    ///
    /// - Parameter failures: 30 doublings are the most; of a second they are 34 years.
    package func doubled(afterFailures failures: Int, atMost longest: Duration) -> Duration {
        min(self * (1 << min(max(failures - 1, 0), 30)), longest)
    }
}
