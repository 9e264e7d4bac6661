import Foundation

/// What a ``ConfigKeeper`` guards: pure state, whose methods say what is to be done.
struct KeeperState: Sendable {
    var stored: StoredConfig
    /// Parameter name → default value as text, set by the app at each start.
    var defaults: [String: String] = [:]
    /// Seconds; ``RemoteConfigSettings/minimumFetchInterval``.
    var minimumFetchInterval = RemoteConfigSettings.defaultMinimumFetchInterval
    /// Seconds; ``RemoteConfigSettings/fetchTimeout``.
    var fetchTimeout = RemoteConfigSettings.defaultFetchTimeout
    /// The exchange under way; whoever wants to fetch meanwhile shares its outcome.
    var flight: Task<FetchReport, Never>?
    var announced = AnnouncedFetch()
    var timer: Task<Void, Never>?
    /// Whether ``PushMessaging/fetchesAutomatically`` is on.
    var fetchesAutomatically = false
    var updateListeners: [UUID: @Sendable (Result<Set<String>, RemoteConfigUpdateError>) -> Void] = [:]
    var activationListeners: [UUID: @Sendable (Set<String>) -> Void] = [:]
    var exchangeListeners: [UUID: @Sendable (FetchReport) -> Void] = [:]
    /// Set once the app was deleted: nothing is started any more.
    var isClosed = false

    /// Whether messages are followed by fetches without the app's doing.
    var isLive: Bool { !isClosed && (fetchesAutomatically || !updateListeners.isEmpty) }

    var fetchedVersion: Int64 { stored.fetched?.version ?? 0 }

    /// Takes the server's answer, unless it is older than what is held and ``keepsOut(_:_:_:)`` says to wait.
    mutating func receive(
        _ answer: FetchAnswer, to demand: FetchPolicy.Demand, context: String, now: Date, random: Double
    ) -> FetchReport {
        switch answer {
        case .content(let content):
            if keepsOut(content.version, demand, now) { return keepWhatIsHeld(answered: content.version) }
            stored.fetched = content
            return succeed(version: content.version, context, now)
        case .unchanged(let version):
            guard stored.fetched != nil else {
                return fail(.unreadable("the server answered NO_CHANGE to a client that holds nothing"), now, random)
            }
            if keepsOut(version, demand, now) { return keepWhatIsHeld(answered: version) }
            if let version { stored.fetched?.version = version }
            return succeed(version: stored.fetched?.version, context, now)
        case .failed(let failure):
            return fail(failure, now, random)
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
        let target = stored.staleVersion
        if version.flatMap({ version in target.map { version >= $0 } }) ?? true {
            (stored.isStale, stored.staleVersion, stored.isVoid) = (false, nil, false)
        }
        return .answered(version: version)
    }

    private mutating func fail(_ failure: FetchFailure, _ now: Date, _ random: Double) -> FetchReport {
        stored.lastFetchStatus = RemoteConfigFetchStatus.failure.rawValue
        if failure.throttles { stored.throttle.failed(at: now, random: random, retryAfter: failure.retryAfter) }
        return .failed(failure)
    }
}

/// How a fetch ended.
enum FetchReport: Sendable, Equatable {
    /// What is held is fresh enough; the server was not asked.
    case cached
    /// The server answered; its version, if it said one.
    case answered(version: Int64?)
    /// The server was not asked, because of failures before.
    case throttled(until: Date)
    case failed(FetchFailure)
}
