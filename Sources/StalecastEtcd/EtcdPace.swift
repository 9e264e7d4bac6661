/// Time limit of calls, which follows how long they take: three times the longest that RFC 6298 expects of the next one
/// (the smoothed time and four times its variation), and twice as much after each call that ran out of it.
package struct EtcdPace: Sendable, Hashable {
    private let least: Duration
    private let most: Duration
    /// Time that a call takes, smoothed; nil before the first answer.
    package private(set) var smoothed: Duration?
    private var variation: Duration = .zero
    /// Calls in a row that ran out of their time.
    private var misses = 0

    /// Doublings beyond these would pass any bound.
    private static let mostMisses = 8

    /// - Parameters:
    ///   - least: limit where calls are quick.
    ///   - most: never more than this; the same as `least` for a limit that does not change.
    package init(least: Duration, most: Duration) {
        self.least = least
        self.most = max(least, most)
    }

    package var limit: Duration {
        let expected = smoothed.map { ($0 + variation * 4) * 3 } ?? .zero
        return min(most, max(least, expected) * (1 << misses))
    }

    package mutating func answered(in time: Duration) {
        misses = 0
        guard let smoothed else { return (self.smoothed, variation) = (time, time / 2) }
        let difference = max(time - smoothed, smoothed - time)
        variation = variation * 0.75 + difference * 0.25
        self.smoothed = smoothed * 0.875 + time * 0.125
    }

    package mutating func missed() { misses = min(misses + 1, Self.mostMisses) }
}
