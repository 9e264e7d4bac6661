/// Full jitter: a wait drawn evenly from the floor to the floor plus `base · 2ⁿ`, at most the cap.
struct Backoff {
    let floor: Duration
    let base: Duration
    let cap: Duration

    /// - Parameter failures: in a row, from 1.
    func wait(after failures: Int, using generator: inout some RandomNumberGenerator) -> Duration {
        let doubled = base * (1 << min(max(failures - 1, 0), 30))
        let most = min(doubled, cap)
        return floor + most * Double.random(in: 0...1, using: &generator)
    }
}

extension Duration {
    /// In nanoseconds, 0 for less than nothing.
    var nanoseconds: UInt64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        return UInt64(seconds) * 1_000_000_000 + UInt64(attoseconds / 1_000_000_000)
    }

    /// In microseconds.
    var microseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds * 1_000_000 + attoseconds / 1_000_000_000_000
    }
}
