import Crypto
import Synchronization

/// The events that were taken lately, so that a redelivery does not make a source look again. Bounded: the newest
/// ``capacity`` are remembered, each for ``lifetime``; what was forgotten costs one look.
package final class RecentEvents: Sendable {
    /// Events remembered. Default 4096, 32 bytes and some each.
    private let capacity: Int
    /// Default 1 h; at-least-once senders retry sooner, and an id that is used twice must not be deaf for ever.
    private let lifetime: Duration
    private let state = Mutex(State())

    private struct State {
        var takenAt: [Digest: ContinuousClock.Instant] = [:]
        /// Digests in the order they were taken; a circle once it is full.
        var order: [Digest] = []
        var next = 0

        mutating func append(_ digest: Digest, _ capacity: Int) {
            if order.count < capacity { return order.append(digest) }
            takenAt[order[next]] = nil
            order[next] = digest
            next = (next + 1) % capacity
        }
    }

    /// An id may be long, and an attacker may choose ids that collide.
    private typealias Digest = SHA256.Digest

    package init(capacity: Int = 4096, lifetime: Duration = .seconds(3600)) {
        precondition(capacity > 0, "remembering nothing would look at every redelivery")
        self.capacity = capacity
        self.lifetime = lifetime
    }

    /// Remembers the event. False when it was taken before.
    package func take(sender: String, id: String, now: ContinuousClock.Instant = .now) -> Bool {
        // The length keeps ("a", "bc") and ("ab", "c") apart.
        let digest = SHA256.hash(data: Array("\(sender.utf8.count):\(sender)\(id)".utf8))
        return state.withLock { state in
            if let before = state.takenAt[digest], now - before < lifetime { return false }
            if state.takenAt.updateValue(now, forKey: digest) == nil { state.append(digest, capacity) }
            return true
        }
    }

    /// Number of events that are remembered.
    package var count: Int { state.withLock { $0.takenAt.count } }
}
