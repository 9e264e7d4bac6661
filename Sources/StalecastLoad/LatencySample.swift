import Foundation

/// Durations in nanoseconds, sorted, and what people ask of them.
package struct LatencySample: Sendable {
    package let values: [UInt64]

    package init(_ nanoseconds: some Sequence<UInt64>) { values = nanoseconds.sorted() }

    package var count: Int { values.count }
    /// First latency in milliseconds, like all of these; nil for an empty sample.
    package var first: Double? { values.first.map(Self.milliseconds) }
    package var p50: Double? { percentile(50) }
    package var p99: Double? { percentile(99) }
    package var last: Double? { values.last.map(Self.milliseconds) }

    /// The value that `percent` of the sample do not exceed (nearest rank).
    func percentile(_ percent: Double) -> Double? {
        guard !values.isEmpty else { return nil }
        let rank = Int((Double(values.count) * percent / 100).rounded(.up))
        return Self.milliseconds(values[min(max(rank, 1), values.count) - 1])
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

/// Counts of latencies in buckets whose bounds grow by √2.
package struct LatencyHistogram {
    /// Bucket from `lower` up to but without `upper`, in milliseconds.
    package struct Bucket: Equatable {
        package let lower: Double
        package let upper: Double
        package var count: Int
    }

    /// Buckets without gaps, from the first that is not empty to the last.
    package let buckets: [Bucket]

    /// - Parameter nanoseconds: the latencies; what is below 1 µs counts as 1 µs.
    package init(_ nanoseconds: some Sequence<UInt64>) {
        var counts: [Int: Int] = [:]
        for value in nanoseconds { counts[Self.step(value), default: 0] += 1 }
        let steps = (counts.keys.min() ?? 0)..<((counts.keys.max() ?? -1) + 1)
        buckets = steps.map { Bucket(lower: Self.bound($0), upper: Self.bound($0 + 1), count: counts[$0] ?? 0) }
    }

    private static func step(_ nanoseconds: UInt64) -> Int {
        Int((log2(Double(max(nanoseconds, 1000)) / 1e6) * 2).rounded(.down))
    }

    private static func bound(_ step: Int) -> Double { exp2(Double(step) / 2) }

    /// One line per bucket with a bar; the longest has 50 characters.
    package func lines() -> [String] {
        let most = buckets.map(\.count).max() ?? 0
        let total = buckets.reduce(0) { $0 + $1.count }
        return buckets.map { bucket in
            let range = "\(Self.label(bucket.lower)) – \(Self.label(bucket.upper)) ms"
            let share = String(format: "%.1f %%", 100 * Double(bucket.count) / Double(max(total, 1)))
            return "  \(range)  \(Self.bar(bucket.count, of: most, 50)) \(bucket.count) (\(share))"
        }
    }

    private static func label(_ milliseconds: Double) -> String {
        let text = String(format: milliseconds < 10 ? "%.2f" : milliseconds < 100 ? "%.1f" : "%.0f", milliseconds)
        return String(repeating: " ", count: max(0, 6 - text.count)) + text
    }

    /// Bar in eighths of a character, so that a single delivery among thousands still shows.
    package static func bar(_ count: Int, of most: Int, _ width: Int) -> String {
        guard most > 0, count > 0 else { return String(repeating: " ", count: width) }
        let eighths = max(1, count * width * 8 / most)
        let rest = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8]
        let bar = String(repeating: "█", count: eighths / 8) + rest
        return bar + String(repeating: " ", count: max(0, width - bar.count))
    }
}

/// Measured figures as text; `–` for what could not be measured.
package enum Figure {
    package static let none = "–"

    /// Milliseconds or microseconds.
    package static func small(_ value: Double?) -> String { fixed(value, 2) }
    package static func perSecond(_ value: Double?) -> String { fixed(value, 0) }

    package static func fixed(_ value: Double?, _ decimals: Int) -> String {
        value.map { String(format: "%.\(decimals)f", $0) } ?? none
    }

    /// Bytes as kB (1,024 bytes) with two decimals.
    package static func kilobytes(_ bytes: Double?) -> String { fixed(bytes.map { $0 / 1024 }, 2) }

    package static func mebibytes(_ bytes: Int?) -> String { fixed(bytes.map { Double($0) / 1_048_576 }, 1) }
}
