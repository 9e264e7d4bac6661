import StalecastOutbound

/// Reason why a look at an origin gave nothing.
package struct OriginProblem: Error, Sendable, Hashable, CustomStringConvertible {
    /// Spelled as in metrics and `/status`.
    package enum Reason: String, Sendable, Hashable, CaseIterable {
        /// No connection, or none that could be used.
        case unreachable
        case timeout
        case tls
        /// The address guard forbids the address.
        case blocked
        case tooLarge = "too_large"
        /// The answer ended early, or was not HTTP.
        case brokenAnswer = "broken_answer"
        case redirect
        /// 401, 403, or no token could be had.
        case unauthorized
        case notFound = "not_found"
        /// 429 or 503: the origin asks to be left alone.
        case throttled
        case serverError = "server_error"
        case unexpectedStatus = "unexpected_status"
        /// An answer came, and its content cannot be used.
        case invalidContent = "invalid_content"
        /// The origin shows an older version than was adopted before.
        case older = "older_version"
        /// The origin has other content under the number of a version that was adopted before.
        case sameVersion = "same_version"
        /// A file or directory that cannot be read.
        case unreadable
        /// Content that was seen and could not be committed here.
        case store
    }

    package let reason: Reason
    /// A sentence for the operator: what was seen, and where it helps, what to do. No secrets.
    package let description: String
    /// Wait that the origin asked for; nil when it did not.
    package let retryAfter: Duration?

    /// Looking again after ``retryAfter`` is likely to help: that, doubled each time, is the pause.
    let isSoonOver: Bool

    package init(
        _ reason: Reason, _ description: String, retryAfter: Duration? = nil, isSoonOver: Bool = false
    ) {
        (self.reason, self.description) = (reason, description)
        (self.retryAfter, self.isSoonOver) = (retryAfter, isSoonOver)
    }

    /// No answer came.
    init(_ failure: OutboundFailure, host: String) {
        let reason: Reason =
            switch failure.reason {
            case .dnsTimeout, .connectTimeout, .responseTimeout: .timeout
            case .tlsTimeout, .tlsVerify, .tls: .tls
            case .blocked: .blocked
            case .tooLarge: .tooLarge
            case .badAnswer, .reset: .brokenAnswer
            case .dns, .refused, .unreachable, .cancelled, .other: .unreachable
            }
        self.init(reason, Self.sentence(failure, reason, host))
    }

    private static func sentence(_ failure: OutboundFailure, _ reason: Reason, _ host: String) -> String {
        switch reason {
        case .blocked:
            "the address of \(host) is not allowed for sources; if it is yours, add its network to "
                + "sources.allowedAddresses"
        case .tooLarge: "the answer of \(host) is larger than the limit; raise the source's maxBytes if that is right"
        default: "\(host): \(failure.description)"
        }
    }
}
