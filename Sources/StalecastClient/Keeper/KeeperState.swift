import Foundation

/// State that a ``ConfigKeeper`` guards: a pure value, whose methods return the actions to perform.
struct KeeperState: Sendable {
    var stored: StoredConfig
    /// Parameter name → default value as text, set by the app at each start.
    var defaults: [String: String] = [:]
    /// Seconds; ``RemoteConfigSettings/minimumFetchInterval``.
    var minimumFetchInterval = RemoteConfigSettings.defaultMinimumFetchInterval
    /// Seconds; ``RemoteConfigSettings/fetchTimeout``.
    var fetchTimeout = RemoteConfigSettings.defaultFetchTimeout
    /// The exchange under way; a caller that wants to fetch meanwhile shares its outcome, unless that would be too old.
    var flight: Flight?
    /// Number of exchanges so far.
    var flights = 0
    /// Number of messages that did not name the new version.
    var unnumberedMessages = 0
    var announced = AnnouncedFetch()
    /// The version held when the announcement came that `announced` is about.
    private(set) var heldBefore: Int64 = 0
    var timer: Task<Void, Never>?
    /// Turn of `timer`; one with a lower turn that starts later is void.
    var timerTurn = 0
    /// Whether ``PushMessaging/fetchesAutomatically`` is on.
    var fetchesAutomatically = false
    var listeners = Listeners()
    /// Set once the app was deleted: nothing is started any more.
    var isClosed = false

    /// Whether messages are followed by fetches without the app's doing.
    var isLive: Bool { !isClosed && (fetchesAutomatically || !listeners.updates.isEmpty) }

    var fetchedVersion: Int64 { stored.fetched?.version ?? 0 }

    /// Whether something was fetched since the announcement.
    var hasNews: Bool { fetchedVersion != heldBefore }

    /// Has `version` fetched (nil: any), `delay` seconds from now.
    mutating func announce(_ version: Int64?, delay: TimeInterval, at now: Date) -> AnnouncedFetch.Action {
        if announced.phase == .idle { heldBefore = fetchedVersion }
        return announced.announced(version, delay: delay, at: now)
    }

    /// Takes the server's answer, unless it is older than what is held and ``keepsOut(_:_:_:)`` says to wait.
    ///
    /// - Parameter context: ``StoredConfig/deviceContext`` when the request was sent.
    mutating func receive(
        _ answer: FetchAnswer, to demand: FetchPolicy.Demand, context: String, now: Date, random: Double
    ) -> FetchReport {
        defer { flight = nil }
        // What came after the request was sent, this answer may not know of.
        let isOvertaken = flight.map { $0.unnumberedMessages < unnumberedMessages } ?? false
        defer { if isOvertaken { stored.isStale = true } }
        // An answer to other signals is not what they would get: the next fetch asks whatever the interval.
        let context = flight.map { $0.signals == stored.customSignals } ?? true ? context : ""
        switch answer {
        case .content(let content):
            if keepsOut(content.version, demand, now) { return keepWhatIsHeld(answered: content.version) }
            stored.fetched = content
            return succeed(version: content.version, context, now)
        case .unchanged(let version):
            guard stored.fetched != nil else {
                let reason = "the server answered NO_CHANGE to a client that holds nothing"
                return fail(.unreadable(reason), demand, now, random)
            }
            if keepsOut(version, demand, now) { return keepWhatIsHeld(answered: version) }
            if let version { stored.fetched?.version = version }
            return succeed(version: stored.fetched?.version, context, now)
        case .failed(let failure):
            return fail(failure, demand, now, random)
        }
    }

    /// The server answers, but with something older: no failure, and nothing that makes what is held any fresher.
    private mutating func keepWhatIsHeld(answered version: Int64?) -> FetchReport {
        stored.lastFetchStatus = RemoteConfigFetchStatus.success.rawValue
        stored.throttle.reset()
        return .answered(version: version)
    }

    private mutating func succeed(version: Int64?, _ context: String, _ now: Date) -> FetchReport {
        stored.lastFetchTime = now
        stored.lastFetchStatus = RemoteConfigFetchStatus.success.rawValue
        stored.deviceContext = context
        stored.throttle.reset()
        if stored.isAnswered(by: version, now, within: Self.olderAnswersLimit) {
            (stored.isStale, stored.staleVersion, stored.isVoid) = (false, nil, false)
            stored.unreachedSince = nil
        }
        return .answered(version: version)
    }

    /// A failure that begins a pause is told as that, as the iOS SDK does. A client that never fetched anything, or
    /// that wants the actual values, is paused only by a server that names the pause.
    private mutating func fail(
        _ failure: FetchAnswer.Failure, _ demand: FetchPolicy.Demand, _ now: Date, _ random: Double
    ) -> FetchReport {
        if failure.throttles { stored.throttle.failed(at: now, random: random, retryAfter: failure.retryAfter) }
        // Without a first success there are no values to run on, so that only the server's own pause counts.
        let isHeldBack = failure.retryAfter != nil || (demand != .actual && stored.lastFetchTime != nil)
        if failure.throttles, isHeldBack, let end = stored.throttle.end(after: now) {
            stored.lastFetchStatus = RemoteConfigFetchStatus.throttled.rawValue
            return .throttled(until: end, failure)
        }
        stored.lastFetchStatus = RemoteConfigFetchStatus.failure.rawValue
        return .failed(failure)
    }
}

extension KeeperState {
    struct Listeners: Sendable {
        var updates: [UUID: @Sendable (Result<Set<String>, RemoteConfigUpdateError>) -> Void] = [:]
        var activations: [UUID: @Sendable (Set<String>) -> Void] = [:]
        var exchanges: [UUID: @Sendable (FetchReport) -> Void] = [:]
    }

    /// An exchange with the server that is under way.
    struct Flight: Sendable {
        /// Counts up from 1 in the order of their beginnings.
        var number: Int
        var task: Task<FetchReport, Never>
        /// Sent with it.
        var signals: [String: String]
        /// Number of such messages when it began.
        var unnumberedMessages: Int
    }
}

/// End of a fetch.
enum FetchReport: Sendable, Equatable {
    /// The content is fresh enough; the server was not asked.
    case cached
    /// The server answered; its version, if it said one.
    case answered(version: Int64?)
    /// The server asked for a pause: by the failure this fetch met, or before, and then it was not asked.
    case throttled(until: Date, FetchAnswer.Failure? = nil)
    case failed(FetchAnswer.Failure)
}

/// Values never go back without a rollback, and a rollback has a new, higher version. An answer of a lower version than
/// the one held is that of a server that lags, or of a store that was restored from a backup. See
/// `StalecastClient.docc/WhenAnAnswerIsOlder.md`.
extension KeeperState {
    /// Seconds for which older answers are kept out, and an announced version is waited for. Ours: a replica that lags
    /// catches up within seconds, and a restored store whose clients do not listen is worth five minutes.
    static let olderAnswersLimit: TimeInterval = 300

    /// Whether an answer of `version` is not to be taken, although the server gave it.
    ///
    /// An answer to a message never takes the client back: the message is proof of a newer version. One to the app
    /// does once nothing but older answers came for ``olderAnswersLimit``. A disowned cursor ends the waiting at once:
    /// then the server itself says that its store is another one. nil, a server without versions, is always taken.
    mutating func keepsOut(_ version: Int64?, _ demand: FetchPolicy.Demand, _ now: Date) -> Bool {
        guard let version, version < fetchedVersion, !stored.isVoid else {
            stored.olderSince = nil
            return false
        }
        // A start in the future is that of a clock that was set back.
        let since = min(stored.olderSince ?? now, now)
        stored.olderSince = since
        if case .announced = demand { return true }
        guard now.timeIntervalSince(since) >= Self.olderAnswersLimit else { return true }
        stored.olderSince = nil
        return false
    }
}
