/// Limits attempts to a rate; a burst of one second's worth, at least one, is free.
package struct TokenBucket: Sendable {
    private var tokens = 0.0
    /// 0 before the first use, when it is full.
    private var filledAt: UInt64 = 0

    package init() {}

    /// Time at which the next attempt may start; not later than `now` when it may at once.
    ///
    /// - Parameter rate: in attempts per second; nil is no limit.
    package func ready(_ rate: Double?, at now: UInt64) -> UInt64 {
        guard let rate, filledAt > 0, tokens < 1 else { return now }
        // The same whenever it is asked.
        return max(now, filledAt + UInt64((1 - tokens) / rate * 1e9) + 1)
    }

    package mutating func take(_ rate: Double?, at now: UInt64) {
        guard let rate else { return }
        tokens = max(0, level(rate, at: now) - 1)
        filledAt = now
    }

    private func level(_ rate: Double, at now: UInt64) -> Double {
        let burst = max(1, rate)
        if filledAt == 0 { return burst }
        return min(burst, tokens + Double(now - min(now, filledAt)) / 1e9 * rate)
    }
}
