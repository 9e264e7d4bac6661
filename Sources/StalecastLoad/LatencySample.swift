/// Durations in nanoseconds, sorted, and what people ask of them.
package struct LatencySample: Sendable {
    private let sorted: [UInt64]

    package init(_ nanoseconds: some Sequence<UInt64>) { sorted = nanoseconds.sorted() }

    package var count: Int { sorted.count }
    package var values: [UInt64] { sorted }
    /// In milliseconds, like all of these; nil for an empty sample.
    package var first: Double? { sorted.first.map(Self.milliseconds) }
    package var p50: Double? { percentile(50) }
    package var p99: Double? { percentile(99) }
    package var last: Double? { sorted.last.map(Self.milliseconds) }

    /// The value that `percent` of the sample do not exceed (nearest rank).
    func percentile(_ percent: Double) -> Double? {
        guard !sorted.isEmpty else { return nil }
        let rank = Int((Double(sorted.count) * percent / 100).rounded(.up))
        return Self.milliseconds(sorted[min(max(rank, 1), sorted.count) - 1])
    }

    package static func milliseconds(_ nanoseconds: UInt64) -> Double { Double(nanoseconds) / 1e6 }
}

extension Collection where Element == Double {
    /// The middle value, of an even number the mean of the two in the middle; nil when empty.
    package var median: Double? {
        let sorted = sorted()
        guard let last = sorted.indices.last else { return nil }
        return (sorted[last / 2] + sorted[(last + 1) / 2]) / 2
    }
}
