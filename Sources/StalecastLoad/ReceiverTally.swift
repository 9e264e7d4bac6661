import Synchronization

/// What all receivers have counted; the loops write it once per turn.
package final class ReceiverTally: Sendable {
    package init() {}

    package struct Counts: Sendable, Equatable {
        package init() {}

        package var requests = 0
        /// Accepted; as many as receivers when every connection is used again.
        package var connections = 0
        /// A receiver's newest version once more: allowed, but each costs.
        package var repeated = 0
        /// An older version after a newer one, which must not be.
        package var backwards = 0
    }

    private let counted = Mutex(Counts())

    package var counts: Counts { counted.withLock { $0 } }

    package func add(_ other: Counts) {
        guard other != Counts() else { return }
        counted.withLock {
            $0.requests += other.requests
            $0.connections += other.connections
            $0.repeated += other.repeated
            $0.backwards += other.backwards
        }
    }
}
