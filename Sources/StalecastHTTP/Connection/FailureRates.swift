import Synchronization

/// Bad credentials of this second by address, over all loops of a listener: a guesser is told to stop, and costs no
/// more signatures.
package final class FailureRates: Sendable {
    /// Failures of one address in a second.
    package static let limit = 20

    private let rates = Mutex(ArrivalRates())

    package init() {}

    /// Counts a bad credential. `now`: nanoseconds, monotonic.
    ///
    /// - Returns: false when there were as many as may be.
    package func admits(_ address: UInt64, at now: UInt64) -> Bool {
        rates.withLock { $0.admits(address, limit: Self.limit, at: now) }
    }

    /// Whether an address has had all of this second's; counts nothing.
    package func isOver(_ address: UInt64, at now: UInt64) -> Bool {
        rates.withLock { $0.count(of: address, at: now) >= Self.limit }
    }
}
