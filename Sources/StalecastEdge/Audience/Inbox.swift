package import StalecastWire
import Synchronization

/// Events that other threads post to a loop, in their order.
///
/// An announcement of a scope without subscribers on the loop does not wake it: the loop takes it in its next turn, at
/// most a tick later. A request that comes earlier finds the loop's board behind the hub's, and the inbox is taken first.
package final class Inbox<Event: Sendable>: Sendable {
    private struct State {
        var events: [Event] = []
        /// The loop was woken for events that it has not taken yet.
        var isWoken = false
        /// Scopes that subscribers of the loop hear.
        var heard: Set<Scope> = []
        var isClosed = false
    }

    /// Task of the thread that has posted.
    package enum Posted: Sendable {
        /// Wake the loop.
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

    /// - Parameter scope: the one whose subscribers the event is for; nil wakes the loop in any case.
    package func post(_ event: Event, for scope: Scope? = nil) -> Posted {
        state.withLock { state in
            if state.isClosed { return .closed }
            state.events.append(event)
            if state.isWoken { return .woken }
            if let scope, !state.heard.contains(scope) { return .waits }
            state.isWoken = true
            return .wake
        }
    }

    /// Takes everything posted so far.
    package func take() -> [Event] {
        state.withLock { state in
            defer { (state.events, state.isWoken) = ([], false) }
            return state.events
        }
    }

    /// Sets the scopes whose announcements wake the loop.
    ///
    /// - Returns: true when events wait, which the loop must take now: subscribers came after they were posted.
    package func hear(_ scopes: Set<Scope>) -> Bool {
        state.withLock { state in
            state.heard = scopes
            return !state.events.isEmpty
        }
    }

    /// Takes what is left, and refuses later posts.
    package func close() -> [Event] {
        state.withLock { $0.isClosed = true }
        return take()
    }
}

/// Scopes that subscribers and canaries of a loop hear. They grow with each of them, and shrink from time to time.
struct HeardScopes {
    var canaries = CanarySeats()
    private var scopes: Set<Scope> = []
    private var isNew = false

    mutating func add(_ scope: Scope) { if scopes.insert(scope).inserted { isNew = true } }

    mutating func seatCanary(_ socket: Int32, of scope: Scope) {
        canaries.add(socket, of: scope)
        add(scope)
    }

    func cover(_ others: Set<Scope>) -> Bool { others.isSubset(of: scopes) }

    /// Drops scopes that neither a subscriber nor a canary hears any more.
    mutating func keep(_ subscribed: Set<Scope>) {
        let kept = subscribed.union(canaries.scopes)
        guard kept != scopes else { return }
        (scopes, isNew) = (kept, true)
    }

    /// Returns the scopes when they changed since the last call, else nil.
    mutating func takeNew() -> Set<Scope>? {
        defer { isNew = false }
        return isNew ? scopes : nil
    }
}
