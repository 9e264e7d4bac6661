import CLinux
package import StalecastWire
import Synchronization

/// Events that other threads post to a loop, in their order.
///
/// An announcement of a scope without subscribers on the loop does not wake the loop; where the scope has a canary, it
/// does so at most once a tick. Otherwise the loop takes the announcement in its next turn, at most a tick later. A
/// request that comes earlier finds the loop's board behind the hub's; then the inbox is taken first.
package final class Inbox<Event: Sendable>: Sendable {
    private struct State {
        var events: [Event] = []
        /// The loop was woken for events that it has not taken yet.
        var isWoken = false
        var heard = HeardScopes()
        /// Times at which the loop was woken for canaries alone, in nanoseconds of the monotonic clock.
        var wokenAt: [Scope: UInt64] = [:]
        var isClosed = false

        /// Whether an announcement of the scope wakes the loop.
        mutating func wakes(for scope: Scope, at now: () -> UInt64) -> Bool {
            if heard.scopes.contains(scope) { return true }
            guard heard.canaries.contains(scope) else { return false }
            let now = now()
            if let last = wokenAt[scope], now < last + CanarySeats.pace { return false }
            wokenAt[scope] = now
            return true
        }
    }

    /// Task of the thread that has posted.
    package enum Posted: Sendable {
        case wake
        /// Nothing: the loop was woken before.
        case woken
        /// Nothing: the loop has no subscriber for it.
        case waits
        /// The loop has ended; the event was not taken.
        case closed
    }

    private let state = Mutex(State())

    package init() {}

    /// - Parameters:
    ///   - scope: the one whose subscribers the event is for; nil wakes the loop in any case.
    ///   - now: time in nanoseconds of the monotonic clock.
    package func post(
        _ event: Event, for scope: Scope? = nil, at now: @autoclosure () -> UInt64 = stalecast_monotonic_ns()
    ) -> Posted {
        state.withLock { state in
            if state.isClosed { return .closed }
            state.events.append(event)
            if state.isWoken { return .woken }
            if let scope, !state.wakes(for: scope, at: now) { return .waits }
            state.isWoken = true
            return .wake
        }
    }

    package func take() -> [Event] {
        state.withLock { state in
            defer { (state.events, state.isWoken) = ([], false) }
            return state.events
        }
    }

    /// Sets the scopes whose announcements wake the loop.
    ///
    /// - Returns: true when events wait, which the loop must take now: subscribers came after they were posted.
    package func hear(_ scopes: HeardScopes) -> Bool {
        state.withLock { state in
            state.heard = scopes
            return !state.events.isEmpty
        }
    }

    package func close() -> [Event] {
        state.withLock { $0.isClosed = true }
        return take()
    }
}

/// Scopes that subscribers of a loop hear. They grow with each subscriber, and shrink from time to time.
package struct HeardScopes: Sendable {
    package private(set) var scopes: Set<Scope> = []
    /// Scopes with a canary, for which the loop is woken once a tick at most.
    package private(set) var canaries: Set<Scope> = []
    private var isNew = false

    package init() {}

    package mutating func add(_ scope: Scope) { if scopes.insert(scope).inserted { isNew = true } }

    package mutating func setCanaries(_ scopes: Set<Scope>) {
        guard canaries != scopes else { return }
        (canaries, isNew) = (scopes, true)
    }

    func cover(_ others: Set<Scope>) -> Bool { others.isSubset(of: scopes) }

    mutating func keep(_ kept: Set<Scope>) {
        guard kept != scopes else { return }
        (scopes, isNew) = (kept, true)
    }

    /// Returns a copy when something changed since the last call, else nil.
    mutating func takeNew() -> HeardScopes? {
        defer { isNew = false }
        return isNew ? self : nil
    }
}
