import StalecastWire

/// Times of a subscriber's events, in milliseconds: one value for both halves of Edge, so that a stream or poll is
/// promised the same wherever it is held. Every time is jittered, so that clients that came together drift apart.
struct SubscriberPolicy {
    /// Least time between two messages to a Firebase stream, because the SDKs' parsers take one message from each read.
    static let distanceMs = 100

    let settings: EdgeSettings
    private let heartbeat: Int
    private let retry: Int
    private var random = SystemRandomNumberGenerator()

    init(_ settings: EdgeSettings) {
        self.settings = settings
        // Asked for thousands of times in a storm of reconnects.
        heartbeat = settings.times.heartbeat.milliseconds
        retry = settings.times.retry.milliseconds
    }

    private mutating func jittered(_ value: Int, by rollout: Int) -> Int {
        Int.random(in: value - rollout...value + rollout, using: &random)
    }

    /// Time to the next comment on a silent stream: ± 10 %.
    mutating func heartbeatMs() -> Int { jittered(heartbeat, by: heartbeat / 10) }

    /// Life of a stream: the configured one ± 20 %, a Firebase stream's never longer than its own.
    mutating func lifetimeMs(of kind: StreamRequest.Kind) -> Int {
        let isInvalidation = kind == .invalidations
        let times = settings.times
        let life = (isInvalidation ? times.invalidationLifetime : times.streamLifetime).milliseconds
        return Int.random(in: life - life / 5...(isInvalidation ? life : life + life / 5), using: &random)
    }

    /// Time to hold a poll: as asked within the limit, plus up to a sixteenth so that herds drift apart.
    mutating func holdMs(wanted: Int?) -> Int {
        let times = settings.times
        let wait = min(wanted ?? times.pollDefaultWait.milliseconds, times.pollMaxWait.milliseconds)
        return wait == 0 ? 0 : wait + Int.random(in: 0...wait / 16, using: &random)
    }

    /// The reconnect delay for one client: the configured base and up to as much again.
    mutating func retryMs() -> Int { Int.random(in: retry...2 * retry, using: &random) }

    /// The delay told to those that are refused.
    mutating func refusalRetryMs() -> Int { 5 * retryMs() }

    /// The delay told to clients that a drain ends. No client should come back before the restart is over, because some
    /// give up for good when they are refused: all wait for what is left of the drain, with its grace, and up to a
    /// second. More than 2,000 clients wait for the usual delay too, and spread over half a millisecond each.
    mutating func drainRetryMs(left: Int, connections: Int) -> Int {
        let (rollout, fewest) = (connections / 2, 1000)
        let base = rollout > fewest ? retryMs() : 0
        return left + base + Int.random(in: 0...max(fewest, rollout), using: &random)
    }

    /// Time between the warning and the end of a credential: half a minute, or a tenth of a shorter life.
    static func warningMs(before expiry: Int) -> Int { min(30_000, expiry / 10) }

    /// Time within a drain of that length at which one subscriber is ended.
    mutating func drainWaitMs(over milliseconds: Int) -> Int {
        Int.random(in: 0...max(1, milliseconds), using: &random)
    }

    /// A drain ends so long after the last subscriber: time for the last bytes, and for the restart.
    static let drainGraceMs = 2000
}
