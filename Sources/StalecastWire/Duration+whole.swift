/// Whole units, rounded towards zero. Less than nothing is 0, and what does not fit is as much as does: a duration has
/// 128 bits, and some come from outside.
extension Duration {
    /// Halved, so that a sum with a clock does not overflow.
    package var nanoseconds: UInt64 { min(.max / 2, whole(perSecond: 1_000_000_000)) }
    package var microseconds: Int64 { Int64(clamping: whole(perSecond: 1_000_000)) }
    package var milliseconds: Int { Int(clamping: whole(perSecond: 1000)) }

    private func whole(perSecond units: UInt64) -> UInt64 {
        guard self > .zero else { return 0 }
        let (seconds, attoseconds) = components
        let (scaled, isMore) = UInt64(seconds).multipliedReportingOverflow(by: units)
        let (sum, isEvenMore) = scaled.addingReportingOverflow(
            UInt64(attoseconds) / (1_000_000_000_000_000_000 / units))
        return isMore || isEvenMore ? .max : sum
    }
}

extension Timestamp {
    /// Saturates at the ends of time.
    package func advanced(by duration: Duration) -> Timestamp {
        // A thousand years, in seconds.
        let limit: Int64 = 31_556_952_000
        let seconds = min(max(duration.components.seconds, -limit), limit)
        let step = seconds * 1_000_000 + duration.components.attoseconds / 1_000_000_000_000
        let (sum, overflow) = microseconds.addingReportingOverflow(step)
        return Timestamp(microseconds: overflow ? (step < 0 ? .min : .max) : sum)
    }
}
