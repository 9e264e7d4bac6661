package import Foundation

/// The fetch that a STALE message calls for: when it is made, how often it is tried, and when it is given up. Pure
/// state; what it returns is to be done.
///
/// At most ``maxAttempts`` answers are asked for per announced version, with short pauses. When the server still
/// answers an older version, that is the end until something is announced again or the connection comes back, so that
/// a lagging server is not asked in a loop. Attempts that get no answer at all go on slowly: the flag that a fetch is
/// owed outlives an outage.
package struct AnnouncedFetch: Sendable, Equatable {
    package enum Phase: Sendable, Equatable {
        case idle
        case waiting(until: Date)
        case fetching
    }

    package enum Action: Sendable, Equatable {
        case none
        /// Call ``timerFired(turn:)`` after so many seconds.
        case wait(TimeInterval, turn: Int)
        /// Fetch now, for the n-th time since the announcement.
        case fetch(attempt: Int)
        /// The announced version, or a newer one, is there.
        case settled
        /// The server did not answer the announced version.
        case gaveUp
    }

    package private(set) var phase = Phase.idle
    /// The version waited for; nil takes any answer.
    package private(set) var target: Int64?
    /// Attempts since the newest announcement.
    private(set) var attempts = 0
    /// Attempts in a row without an answer.
    private(set) var failures = 0
    /// Set by an announcement during an attempt: when its herd window lets the next attempt begin.
    private var notBefore: Date?
    /// One of those did not say its version: no answer that was asked for before it will do.
    private var isOvertaken = false
    private var turn = 0

    package init() {}

    /// Firebase's SDKs allow themselves as many.
    static let maxAttempts = 3
    /// The slow pauses in seconds: the first, and the longest.
    static let slowPauses = 15.0...900.0

    /// A message announced `version` (nil: not known which) and asks to wait `delay` seconds. A later message neither
    /// puts off a fetch that is already due earlier, nor is its window ignored.
    package mutating func announced(_ version: Int64?, delay: TimeInterval, at now: Date) -> Action {
        let due = now.addingTimeInterval(delay)
        switch phase {
        case .idle:
            target = version
            (attempts, failures) = (0, 0)
            return wait(until: due, now)
        case .waiting(let deadline):
            raise(version)
            return wait(until: min(deadline, due), now)
        case .fetching:
            raise(version)
            notBefore = due
            if version == nil { isOvertaken = true }
            return .none
        }
    }

    package mutating func timerFired(turn: Int) -> Action {
        guard turn == self.turn, case .waiting = phase else { return .none }
        return begin()
    }

    /// An attempt was answered with `version` (nil: the server does not number its answers).
    package mutating func answered(_ version: Int64?, at now: Date, random: Double) -> Action {
        guard phase == .fetching else { return reached(version) }
        failures = 0
        if isReached(by: version), !isOvertaken { return settle() }
        // What was announced meanwhile has attempts of its own.
        if let notBefore { return wait(until: notBefore, now) }
        attempts += 1
        guard attempts < Self.maxAttempts else {
            phase = .idle
            return .gaveUp
        }
        return wait(until: afterPause(random, now), now)
    }

    /// An attempt got no answer, or an error.
    package mutating func failed(at now: Date, random: Double) -> Action {
        guard phase == .fetching else { return .none }
        attempts += 1
        failures += 1
        guard attempts >= Self.maxAttempts else { return wait(until: afterPause(random, now), now) }
        let doubled = Self.slowPauses.lowerBound * pow(2, Double(min(failures - Self.maxAttempts, 16)))
        let pause = min(doubled, Self.slowPauses.upperBound) * (0.5 + random)
        return wait(until: now.addingTimeInterval(pause), now)
    }

    /// An attempt was not made because of throttling.
    package mutating func throttled(until end: Date, at now: Date, random: Double) -> Action {
        guard phase == .fetching else { return .none }
        return wait(until: end.addingTimeInterval(random), now)
    }

    /// Another fetch, which the app asked for, was answered.
    package mutating func reached(_ version: Int64?) -> Action {
        guard case .waiting = phase, isReached(by: version) else { return .none }
        return settle()
    }

    package mutating func cancel() { phase = .idle }

    private mutating func raise(_ version: Int64?) {
        attempts = 0
        target = if let version, let target { max(version, target) } else { version ?? target }
    }

    private func isReached(by version: Int64?) -> Bool {
        guard let version, let target else { return true }
        return version >= target
    }

    private mutating func settle() -> Action {
        phase = .idle
        return .settled
    }

    private mutating func wait(until due: Date, _ now: Date) -> Action {
        guard due > now else { return begin() }
        phase = .waiting(until: due)
        turn += 1
        return .wait((due.timeIntervalSince(now) * 1e6).rounded() / 1e6, turn: turn)
    }

    private mutating func begin() -> Action {
        phase = .fetching
        (notBefore, isOvertaken) = (nil, false)
        return .fetch(attempt: min(attempts, Self.maxAttempts - 1) + 1)
    }

    /// 0.1 to 0.3 s before the second attempt, 0.4 to 1.2 s before the third.
    private func afterPause(_ random: Double, _ now: Date) -> Date {
        let pause = 0.2 * pow(4, Double(attempts - 1)) * (0.5 + random)
        return max(now.addingTimeInterval(pause), notBefore ?? now)
    }
}
