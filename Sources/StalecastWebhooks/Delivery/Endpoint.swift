import DequeModule
import StalecastHub
package import StalecastWire

/// One webhook as delivery sees it; part of ``DeliveryState``, which alone changes it.
final class Endpoint {
    /// Names it in queues; never used again.
    let number: Int
    let id: WebhookID
    /// Copy of the registry's webhook, which attempts share.
    private(set) var registered: RegisteredWebhook
    var webhook: Webhook {
        get { registered.webhook }
        set {
            registered = RegisteredWebhook(newValue)
            terms = Terms(newValue)
        }
    }
    private var terms: Terms
    /// Counts the receivers it has had: what an attempt at a former one brings does not count.
    var generation = 0

    var lanes: [Lane] = []
    /// Index of the lane whose turn it is.
    private var turn = 0
    var operational = OperationalQueue()
    var inFlight = 0

    var health = JournalEntry.TargetHealth()
    var trouble = Trouble()
    /// True once an answer came in this process: then its connection is likely to be there.
    var isKnown = false
    var gate = Gate()

    /// Whether the webhook will be another node's: no attempt begins any more.
    var isLeaving = false
    var waiting = Waiting()

    /// Copy of what every delivery reads, so that it need not copy the whole of ``webhook``.
    private struct Terms {
        let mode: DeliveryMode
        let topics: [TopicName]
        let timeout: Duration
        let ratePerSecond: Double?
        let minInterval: UInt64
        let isDeliverable: Bool

        init(_ webhook: Webhook) {
            mode = webhook.settings.mode
            topics = webhook.settings.topics
            timeout = webhook.settings.limits.timeout
            ratePerSecond = webhook.ratePerSecond
            minInterval = webhook.settings.limits.minInterval.nanoseconds
            isDeliverable = webhook.isDeliverable
        }
    }

    /// Failures so far as this run remembers them, besides ``health``.
    struct Trouble {
        /// Time at which it began to fail before an operator enabled it; nil once it has answered with a 2xx.
        var onTrialSince: Timestamp?
        var lastFailure: DeliveryStatus.Failure?
        /// Messages in a row that the receiver will never take.
        var rejections = 0
        /// Monotonic: of the last failure; of the last that counts as failing in this run; of the first 410. 0 for none.
        var lastFailureAt: UInt64 = 0
        var failingMark: UInt64 = 0
        var goneSince: UInt64 = 0
    }

    /// Times before which nothing is sent, monotonic.
    struct Gate {
        /// Its own backoff.
        var notBefore: UInt64 = 0
        /// The receiver's word.
        var patienceUntil: UInt64 = 0
        private var bucket = TokenBucket()

        func opens(_ rate: Double?, at now: UInt64) -> UInt64 {
            max(notBefore, patienceUntil, bucket.ready(rate, at: now))
        }

        mutating func pass(_ rate: Double?, at now: UInt64) { bucket.take(rate, at: now) }
    }

    /// Places where the state will find it.
    struct Waiting {
        /// True while it is in one of the queues.
        var isQueued = false
        /// Time of its earliest entry among the alarms; `max` for none.
        var alarmAt: UInt64 = .max
    }

    /// Operational messages that wait for it.
    struct OperationalQueue {
        var events: Deque<PendingEvent> = []
        /// The attempt at the first of them.
        var attempt: UInt64?

        var isEmpty: Bool { events.isEmpty }
    }

    struct PendingEvent {
        let event: Delivery.OperationalEvent
        var attempts = 0
        var notBefore: UInt64 = 0
    }

    static let maxOperationalEvents = 16
    static let maxOperationalAttempts = 8

    init(number: Int, webhook: Webhook) {
        self.number = number
        registered = RegisteredWebhook(webhook)
        id = webhook.id
        terms = Terms(webhook)
    }

    var mode: DeliveryMode { terms.mode }
    var topics: [TopicName] { terms.topics }
    var timeout: Duration { terms.timeout }
    var minInterval: UInt64 { terms.minInterval }
    var isDeliverable: Bool { terms.isDeliverable && health.disabledReason == nil && !isLeaving }

    /// Requests that may be under way at once; one only while it fails.
    var width: Int {
        if health.failures > 0 { return 1 }
        return switch mode {
        case .latest: 2
        case .all: 4
        // One for each scope, because order is kept within a scope only.
        case .fifo: max(1, lanes.count)
        }
    }

    var place: Admission.Class { health.failures > 0 ? .failing : isKnown ? .healthy : .unknown }

    /// Index of the lane of `scope`. By index: a closure over the lanes would be given a copy of each.
    func lane(_ scope: Scope) -> Int? { lanes.indices.first { lanes[$0].scope == scope } }

    /// The attempts under way, whatever they are about.
    var attempts: [UInt64] {
        lanes.flatMap { $0.tries.all.compactMap(\.attempt) } + [operational.attempt].compactMap(\.self)
    }

    /// State that its owner sees.
    var state: WebhookState {
        if let reason = health.disabledReason {
            return .disabled(reason: reason, since: health.disabledSince ?? Timestamp(microseconds: 0))
        }
        if webhook.settings.isPaused { return .paused }
        if !webhook.settings.verification.isSatisfied { return .unverified }
        return health.failingSince.map { .failing(since: $0) } ?? .active
    }

    // MARK: What is next

    enum Next {
        case send(lane: Int, ScopeLog.Heard)
        case operational
        case read(lane: Int, after: CommitSequence)
        case wait(UInt64)
        case nothing
    }

    /// True when ``next(at:_:_:)`` is nothing, found without a look at the logs: nothing is owed, or is under way.
    var isQuiet: Bool {
        mode == .latest && operational.isEmpty && lanes.count == 1 && lanes.withUnsafeBufferPointer { $0[0].isQuiet }
    }

    /// Version that ``next(at:_:_:)`` would send, found without a look at the logs; nil where that must tell.
    func plain(at now: UInt64) -> ScopeLog.Heard? {
        guard mode == .latest, lanes.count == 1, operational.isEmpty, inFlight < width, isDeliverable,
            gate.opens(terms.ratePerSecond, at: now) <= now
        else { return nil }
        return lanes.withUnsafeBufferPointer { $0[0].plain(at: now) }
    }

    /// Decides what is sent next, and when. No other code does, and the answer is never stored.
    func next(at now: UInt64, _ logs: [Scope: ScopeLog], _ routes: [TopicName: TopicBinding]) -> Next {
        guard isDeliverable, inFlight < width else { return .nothing }
        let interest = ScopeLog.Interest(topics: topics, routes: routes)
        let open = gate.opens(terms.ratePerSecond, at: now)
        var due: (time: UInt64, next: Next) = (.max, .nothing)
        for step in lanes.indices {
            let index = (turn + step) % lanes.count
            let log = logs[lanes[index].scope] ?? ScopeLog()
            // Through a pointer: Swift calls a method of an element of a class's array on a copy.
            switch lanes.withUnsafeBufferPointer({ $0[index].next(mode, at: now, log, interest) }) {
            case .read(let after):
                // The versions are not read yet: the endpoint must wait until `open` before it can send anything.
                if open <= now { return .read(lane: index, after: after) }
                due = (now, .wait(open))
            case .send(let heard): if due.time > now { due = (now, .send(lane: index, heard)) }
            case .wait(let time): if due.time > time { due = (time, .wait(time)) }
            case .nothing: break
            }
        }
        if operational.attempt == nil, let event = operational.events.first, max(event.notBefore, now) < due.time {
            due = event.notBefore <= now ? (now, .operational) : (event.notBefore, .wait(event.notBefore))
        }
        if case .nothing = due.next { return .nothing }
        return open > max(due.time, now) ? .wait(open) : due.next
    }

    /// Skips versions that do not concern this webhook.
    ///
    /// - Returns: lanes with something to write: extras that are lost, one that was found, and the cursor.
    func advance(
        _ logs: [Scope: ScopeLog], _ routes: [TopicName: TopicBinding]
    ) -> [(lane: Int, lost: [CommitSequence], found: CommitSequence?, isFar: Bool)] {
        let interest = ScopeLog.Interest(topics: topics, routes: routes)
        var told: [(Int, [CommitSequence], CommitSequence?, Bool)] = []
        for index in lanes.indices {
            let (lost, found, isFar) = lanes[index].advance(mode, logs[lanes[index].scope] ?? ScopeLog(), interest)
            if isFar || found != nil || !lost.isEmpty { told.append((index, lost, found, isFar)) }
        }
        return told
    }

    /// Notes that this lane had its turn: the next call of `next` begins with the lane after it.
    func took(_ lane: Int) { turn = (lane + 1) % lanes.count }

    func begins(at now: UInt64) {
        gate.pass(terms.ratePerSecond, at: now)
        inFlight += 1
    }

    // MARK: Health

    /// Counts a failure and adds the time since the last one; a long time without attempts does not count as failing.
    func fails(at now: Moment, since start: Timestamp, _ pace: DeliveryConfiguration.Pace) {
        health.failedAttempts += 1
        if health.failingSince == nil { health.failingSince = start }
        if trouble.failingMark > 0 {
            let time = Int64(clamping: (now.monotonic - min(now.monotonic, trouble.failingMark)) / 1000)
            health.failingTime += min(time, pace.longestWait)
        }
        trouble.failingMark = now.monotonic
    }

    /// Resets the health: earlier failures no longer count.
    func forgive() {
        health = JournalEntry.TargetHealth()
        trouble.rejections = 0
        trouble.failingMark = 0
        trouble.goneSince = 0
        gate.notBefore = 0
    }

    /// A newer version does not end a backoff, but allows a try twice a minute.
    func pullForward(_ pace: DeliveryConfiguration.Pace, _ now: UInt64) {
        guard health.failures > 0 else { return }
        gate.notBefore = min(gate.notBefore, max(now, trouble.lastFailureAt + pace.probeAfter.nanoseconds))
    }

    /// Makes attempts due that wait only because earlier ones failed; a receiver's `Retry-After` stays.
    func hurry() {
        gate.notBefore = 0
        for index in lanes.indices { lanes[index].hurry() }
    }
}

/// Now, by both clocks: the one that never goes back, in nanoseconds, and the wall's.
package struct Moment: Sendable {
    package var monotonic: UInt64
    package var wall: Timestamp

    package init(monotonic: UInt64, wall: Timestamp) {
        self.monotonic = monotonic
        self.wall = wall
    }

    func after(_ delay: Duration) -> Timestamp { wall.advanced(by: delay) }
}
