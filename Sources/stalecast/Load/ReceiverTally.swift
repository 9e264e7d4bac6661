import Synchronization

/// What all receivers have counted; the loops write it once per turn.
final class ReceiverTally: Sendable {
    struct Counts: Sendable, Equatable {
        var requests = 0
        /// Accepted; as many as receivers when every connection is used again.
        var connections = 0
        /// A receiver's newest version once more: allowed, but each costs.
        var repeated = 0
        /// An older version after a newer one, which must not be.
        var backwards = 0
    }

    private let counted = Mutex(Counts())

    var counts: Counts { counted.withLock { $0 } }

    func add(_ other: Counts) {
        guard other != Counts() else { return }
        counted.withLock {
            $0.requests += other.requests
            $0.connections += other.connections
            $0.repeated += other.repeated
            $0.backwards += other.backwards
        }
    }
}
