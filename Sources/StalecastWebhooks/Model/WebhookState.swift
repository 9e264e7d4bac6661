package import StalecastWire

/// State of a webhook that its owner sees: the operator's word (registry) combined with delivery's experience.
package enum WebhookState: Sendable, Hashable {
    /// Delivers, or has nothing to deliver.
    case active
    /// Waits for the receiver's consent (``Verification``); nothing but the question is sent.
    case unverified
    /// Stopped by the operator; what is owed stays owed.
    case paused
    /// The last attempts failed; retries go on.
    case failing(since: Timestamp)
    /// Stopped by the daemon after long failure or at the receiver's wish; the cursor is kept.
    /// - Parameter reason: a stable token, for example `gone`, `failing`, `refused_by_receiver`.
    case disabled(reason: String, since: Timestamp)

    /// Name on the wire: `active`, `unverified`, `paused`, `failing`, `disabled`.
    package var name: String {
        switch self {
        case .active: "active"
        case .unverified: "unverified"
        case .paused: "paused"
        case .failing: "failing"
        case .disabled: "disabled"
        }
    }
}
