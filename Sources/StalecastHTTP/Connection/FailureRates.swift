import Synchronization

/// Counts of bad credentials by address in this second, over all loops of a listener. An address above the limit gets
/// 429, and no signature is checked for it.
package final class FailureRates: Sendable {
    /// Failures of one address in a second.
    package static let limit = 20

    private let rates = Mutex(ArrivalRates())

    package init() {}

    /// Counts a bad credential. `now`: nanoseconds, monotonic.
    ///
    /// - Returns: false when the limit is reached.
    package func admits(_ address: UInt64, at now: UInt64) -> Bool {
        rates.withLock { $0.admits(address, limit: Self.limit, at: now) }
    }

    /// Whether an address has had all of this second's; counts nothing.
    package func isOver(_ address: UInt64, at now: UInt64) -> Bool {
        rates.withLock { $0.count(of: address, at: now) >= Self.limit }
    }
}
