package import StalecastWire

/// Whether and how a receiver is asked before anything is sent to it, and what it said.
package struct Verification: Sendable, Hashable {
    package var method = Method.none
    /// Time at which the receiver agreed to the URL as it is now; nil while it has not. Cleared by a change of the URL.
    package var verifiedAt: Timestamp?
    /// Attempts per minute the receiver granted (`WebHook-Allowed-Rate`); nil when it set no limit.
    package var allowedPerMinute: Int?

    package enum Method: String, Sendable, Hashable, CaseIterable {
        /// Asks no receiver. The default.
        case none
        /// A signed POST with a random challenge, which the answer must contain.
        case challenge
        /// CloudEvents' `OPTIONS` request with `WebHook-Request-Origin`.
        case cloudevents
    }

    /// True when deliveries may be sent.
    package var isSatisfied: Bool { method == .none || verifiedAt != nil }
}
