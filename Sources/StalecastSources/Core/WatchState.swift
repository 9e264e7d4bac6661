import StalecastWire

/// State of a watcher: what happened, and when it has to look next.
struct WatchState: Sendable {
    /// Outcome of one poll, adopting included.
    enum Outcome: Sendable, Hashable {
        case unchanged
        /// The content is current here already; with the origin's number of it.
        case current(VersionNumber?)
        case adopted(VersionNumber, origin: VersionNumber?, Fence.Outcome?)
        case failed(OriginProblem)
        /// The daemon is ending.
        case interrupted
    }

    private(set) var status: SourceStatus
    /// True while a look was asked for that has not begun.
    private var isTriggered = false
    /// Time before which the origin asked not to be looked at; triggers wait for it too.
    private var notBefore: ContinuousClock.Instant?
    /// A version that was promised and not seen so far.
    private var promised: VersionNumber?
    private var promisedPolls = 0
    /// Failed looks of this row after which the interval was kept.
    private var withoutPause = 0

    init(_ status: SourceStatus) { self.status = status }

    /// Time of the next look; in the past when it is due.
    var nextPoll: ContinuousClock.Instant {
        guard let due = status.nextPollAt, let last = status.lastPoll?.at else { return .now }
        guard isTriggered else { return due }
        return max(last + PollSchedule.shortestPause, notBefore ?? last)
    }

    mutating func triggered(expecting version: VersionNumber?) {
        isTriggered = true
        status.counts.triggers += 1
        if let version, version > status.originVersion ?? 0, version > promised ?? 0 {
            promised = version
            promisedPolls = 0
        }
    }

    mutating func began() {
        isTriggered = false
        status.isPolling = true
        status.counts.polls += 1
    }

    /// - Returns: what is worth telling.
    mutating func ended(_ outcome: Outcome, _ schedule: PollSchedule, hears: Bool, random: Double) -> [SourceWatcher
        .Report]
    {
        let now = ContinuousClock.now
        status.isPolling = false
        let poll = SourceStatus.Poll(.now(), at: now)
        status.lastPoll = poll
        notBefore = nil
        switch outcome {
        case .interrupted: return []
        case .failed(let problem): return failed(problem, schedule, poll, random)
        case .unchanged: break
        case .current(let origin): status.originVersion = origin ?? status.originVersion
        case .adopted(let version, let origin, let fenceOutcome):
            status.originVersion = origin ?? status.originVersion
            adopted(version, fenceOutcome)
        }
        var reports = succeeded(schedule, poll, hears, random)
        if case .adopted(let version, _, let fenceOutcome) = outcome {
            reports.append(.adopted(version, hasFenceTimedOut: fenceOutcome.isTimeout))
        }
        return reports
    }

    private mutating func adopted(_ version: VersionNumber, _ fenceOutcome: Fence.Outcome?) {
        status.version = version
        status.lastChange = status.lastPoll?.time
        status.counts.adopted += 1
        switch fenceOutcome {
        case nil: break
        case .timeout: status.counts.fenceTimeouts += 1
        case .passed(let wait):
            status.counts.fenced += 1
            status.counts.fenceWait += wait
        }
    }

    private mutating func succeeded(
        _ schedule: PollSchedule, _ poll: SourceStatus.Poll, _ hears: Bool, _ random: Double
    ) -> [SourceWatcher.Report] {
        status.lastSuccess = poll
        let failures = status.failing?.count ?? 0
        status.failing = nil
        status.nextPollAt = poll.at + (pauseForPromise(schedule) ?? schedule.pause(hears: hears, random: random))
        return failures > 0 ? [.recovered(failures: failures)] : []
    }

    /// nil when nothing is promised, or it is given up.
    private mutating func pauseForPromise(_ schedule: PollSchedule) -> Duration? {
        guard let version = promised else { return nil }
        if version > status.originVersion ?? 0, let pause = schedule.pause(promisedPolls: promisedPolls) {
            promisedPolls += 1
            return min(pause, schedule.interval)
        }
        promised = nil
        promisedPolls = 0
        return nil
    }

    private mutating func failed(
        _ problem: OriginProblem, _ schedule: PollSchedule, _ poll: SourceStatus.Poll, _ random: Double
    ) -> [SourceWatcher.Report] {
        let before = status.failing
        let isOther = before.map { !$0.problem.isSame(as: problem) } ?? true
        // Unusable content does not pause, so it must not lengthen the pause of the first real failure after it.
        if before == nil { withoutPause = 0 }
        if problem.isContent { withoutPause += 1 }
        let failed = (before?.count ?? 0) + 1
        let since = isOther ? poll.time : before?.since ?? poll.time
        status.failing = SourceStatus.Failing(problem: problem, since: since, count: failed)
        status.counts.failed[problem.reason, default: 0] += 1
        if isOther { status.counts.problems += 1 }
        notBefore = problem.retryAfter.map { poll.at + min($0, PollSchedule.longestRetryAfter) }
        let failures = schedule.pause(
            failures: max(1, failed - withoutPause), after: problem, random: random)
        status.nextPollAt = poll.at + (problem.isContent ? schedule.pause(hears: false, random: random) : failures)
        return isOther ? [.problem(problem)] : []
    }
}

extension Optional<Fence.Outcome> {
    fileprivate var isTimeout: Bool { if case .timeout = self { true } else { false } }
}

extension OriginProblem {
    /// The origin answers, and what it has cannot be used: looking less often would only find the repair later.
    fileprivate var isContent: Bool { reason == .invalidContent || reason == .older || reason == .sameVersion }

    /// Whether a log has said so already. How long to wait differs from answer to answer.
    fileprivate func isSame(as other: OriginProblem) -> Bool {
        reason == other.reason && description == other.description
    }
}
