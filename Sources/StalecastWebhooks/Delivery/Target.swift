import StalecastWire

/// One webhook as delivery sees it.
final class Target {
    /// Names the webhook's libcurl handle.
    let number: UInt64
    let id: WebhookID
    var webhook: Webhook { didSet { takeOver() } }
    /// What every delivery looks at, so that it need not copy the whole of ``webhook``.
    private(set) var mode: DeliveryMode
    private(set) var ratePerSecond: Double?
    /// Between the starts of two deliveries of one scope, in nanoseconds.
    private(set) var minInterval: UInt64 = 0
    private var isWanted = false
    /// Attempts under way may end later.
    var isRemoved = false
    var lanes: [Lane] = []
    /// Operational messages that wait for it.
    var notices: [Notice] = []
    var isNoticeInFlight = false
    var inFlight = 0

    /// Failures in a row.
    var failures = 0
    /// Attempts that failed since ``failingSince``.
    var failedAttempts = 0
    var failingSince: Timestamp?
    /// When it began to fail before an operator enabled it; nil once it has answered with a 2xx.
    var onTrialSince: Timestamp?
    var lastFailureAt: UInt64 = 0
    /// True while the last failure was a request to wait (`Retry-After`).
    var isAskedForPatience = false
    /// When a 410 came first, monotonic; 0 for none.
    var goneSince: UInt64 = 0
    var disabled: (reason: String, since: Timestamp)?
    /// True once an answer came in this process: then its connection is likely to be there.
    var isKnown = false
    /// Nothing is sent earlier, monotonic: backoff, `Retry-After`, rate.
    var notBefore: UInt64 = 0
    /// Of the rate limit.
    var bucket = TokenBucket()
    /// True while it is in one of the scheduler's queues.
    var isQueued = false
    /// Of its entry in the scheduler's heap; older entries are void.
    var alarm: UInt64 = 0
    var alarmTime: UInt64 = 0

    struct Notice {
        let event: OperationalEvent
        var attempts = 0
        var notBefore: UInt64 = 0
    }

    static let maxNotices = 16
    static let maxNoticeAttempts = 8

    init(number: UInt64, webhook: Webhook) {
        self.number = number
        self.webhook = webhook
        id = webhook.id
        mode = webhook.mode
        takeOver()
    }

    private func takeOver() {
        mode = webhook.mode
        ratePerSecond = webhook.ratePerSecond
        minInterval = webhook.limits.minInterval.nanoseconds
        isWanted = webhook.isDeliverable
    }

    var isDeliverable: Bool { isWanted && disabled == nil }

    /// Requests that may be under way at once; one only while it fails.
    var width: Int {
        if failures > 0 { return 1 }
        return switch mode {
        case .latest: 2
        case .all: 4
        case .fifo: max(1, lanes.count)
        }
    }

    func lane(_ scope: Scope) -> Lane? { lanes.first { $0.scope == scope } }

    /// As its owner sees it.
    var state: WebhookState {
        if let disabled { return .disabled(reason: disabled.reason, since: disabled.since) }
        if webhook.isPaused { return .paused }
        if !webhook.verification.isSatisfied { return .unverified }
        return failingSince.map { .failing(since: $0) } ?? .active
    }
}

/// Limits attempts to a rate; a burst of one second's worth, at least one, is free.
struct TokenBucket {
    private var tokens = 1.0
    private var filledAt: UInt64 = 0

    /// Takes one attempt; otherwise says when one will be there.
    mutating func take(_ rate: Double?, at now: UInt64) -> UInt64? {
        guard let rate else { return nil }
        let burst = max(1, rate)
        tokens = filledAt == 0 ? burst : min(burst, tokens + Double(now - min(now, filledAt)) / 1e9 * rate)
        filledAt = now
        guard tokens < 1 else {
            tokens -= 1
            return nil
        }
        return now + UInt64((1 - tokens) / rate * 1e9) + 1
    }
}
