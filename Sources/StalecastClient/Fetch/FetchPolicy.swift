package import Foundation

/// Whether a fetch goes to the server.
package struct FetchPolicy: Sendable {
    package enum Demand: Sendable, Equatable {
        /// The app asked. Interval in seconds; nil takes the settings'.
        case app(interval: TimeInterval?)
        /// The app asked, and wants nothing older than its question (RuStore's `actual`): only a pause that the server
        /// named keeps it from asking.
        case actual
        /// A message said so; the interval is 0. `attempt` from 1.
        case announced(attempt: Int)
    }

    package enum Decision: Sendable, Equatable {
        /// The fetched content is fresh enough.
        case cached
        /// No fetch is allowed before that time.
        case throttled(until: Date)
        case fetch
    }

    /// Precedence of the interval: 0 when a message said that the configuration is stale; what the caller gave; the
    /// settings'. Freshness is looked at before throttling. Another device context (app version, system, locale, app
    /// id) overrides both. The SDK's own table throttles only after one success, as in the iOS SDK. A pause that the
    /// server named holds for a first start too: that server sheds the very crowd that starts.
    package static func decide(
        _ demand: Demand, settings interval: TimeInterval, stored: StoredConfig, context: String, now: Date
    ) -> Decision {
        let pauseEnd = stored.throttle.end(after: now)
        guard let last = stored.lastFetchTime else {
            guard stored.throttle.isNamedByServer, let pauseEnd else { return .fetch }
            return .throttled(until: pauseEnd)
        }
        if let known = stored.deviceContext, known != context { return .fetch }
        if case .app(let explicit) = demand, !stored.isStale {
            let age = now.timeIntervalSince(last)
            // A negative age is that of a clock that was set back: the age of the configuration is not known.
            if age >= 0 && age < (explicit ?? interval) { return .cached }
        }
        if demand == .actual, !stored.throttle.isNamedByServer { return .fetch }
        return pauseEnd.map { .throttled(until: $0) } ?? .fetch
    }
}
