import StalecastWire

/// Something to be remembered across restarts.
enum JournalEntry: Sendable {
    /// Everything of the scope up to this version is acknowledged.
    case acknowledged(WebhookID, Scope, VersionNumber, CommitSequence)
    /// One version beyond that is, too.
    case beyond(WebhookID, Scope, CommitSequence)
    case health(WebhookID, TargetHealth)
    case attempt(DeliveryAttempt)
    case dead(WebhookID, DeadLetter)
    /// A version is to be sent again on request, or has been.
    case extra(WebhookID, Scope, CommitSequence, isOwed: Bool)
    case removed(WebhookID)
}

/// What is remembered of a webhook besides its cursors.
struct TargetHealth: Sendable, Equatable {
    var failures = 0
    var failedAttempts = 0
    var failingSince: Timestamp?
    var disabledReason: String?
    var disabledSince: Timestamp?
}

extension Target {
    var health: TargetHealth {
        get {
            TargetHealth(
                failures: failures, failedAttempts: failedAttempts, failingSince: failingSince,
                disabledReason: disabled?.reason, disabledSince: disabled?.since)
        }
        set {
            failures = newValue.failures
            failedAttempts = newValue.failedAttempts
            failingSince = newValue.failingSince
            disabled = newValue.disabledReason.map { ($0, newValue.disabledSince ?? .now()) }
        }
    }
}
