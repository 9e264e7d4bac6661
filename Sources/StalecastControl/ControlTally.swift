import Synchronization

/// Counts of the private listener's requests by their end, for metrics.
package final class ControlTally: Sendable {
    /// A line of the figures.
    package struct Kind: Hashable, Sendable {
        /// The operation's id in the OpenAPI document; `refused` for what has none.
        package let operation: String
        package let status: Int
    }

    private let counts = Mutex<[Kind: Int]>([:])

    package init() {}

    func count(_ operation: String, status: Int) {
        counts.withLock { $0[Kind(operation: operation, status: status), default: 0] += 1 }
    }

    /// Counts in the order of operations and statuses.
    package var requests: [(kind: Kind, count: Int)] {
        counts.withLock { $0 }.map { ($0.key, $0.value) }
            .sorted { ($0.0.operation, $0.0.status) < ($1.0.operation, $1.0.status) }
    }
}
