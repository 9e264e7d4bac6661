/// Counts of durations in fixed buckets, as Prometheus has them. Of use to servers only, and here because all of them
/// import this target.
package struct Histogram: Sendable, Hashable {
    /// Upper bounds in seconds, ascending; one more bucket takes the rest.
    package let bounds: [Double]
    /// Per bucket, not cumulative; one more element than ``bounds``.
    package private(set) var counts: [Int]
    /// Sum of all recorded durations, in seconds.
    package private(set) var sum = 0.0

    package init(bounds: [Double] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]) {
        self.bounds = bounds
        counts = [Int](repeating: 0, count: bounds.count + 1)
    }

    package var count: Int { counts.reduce(0, +) }

    /// The upper bound of the bucket that holds this share of all, infinite in the last one; nil when it holds none.
    package func percentile(_ share: Double) -> Double? {
        var left = (Double(count) * share).rounded(.up)
        guard left > 0 else { return nil }
        for (bucket, count) in counts.enumerated() {
            left -= Double(count)
            if left <= 0 { return bucket < bounds.count ? bounds[bucket] : .infinity }
        }
        return .infinity
    }

    package mutating func record(seconds: Double, count: Int = 1) {
        counts[bounds.firstIndex { seconds <= $0 } ?? bounds.count] += count
        sum += seconds * Double(count)
    }

    /// - Parameter other: of the same bounds.
    package mutating func merge(_ other: Histogram) {
        for index in counts.indices { counts[index] += other.counts[index] }
        sum += other.sum
    }
}
