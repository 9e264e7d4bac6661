/// How long commits took, from the transaction's begin to durable, as a Prometheus histogram.
package struct CommitDurations: Sendable, Hashable {
    /// Upper bounds of the buckets, in seconds, ascending; a last bucket without bound follows.
    package static let bounds: [Double] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]

    /// Commits per bucket, not cumulative; one more element than ``bounds``.
    package private(set) var counts = [UInt64](repeating: 0, count: bounds.count + 1)
    /// Of all commits together, in seconds.
    package private(set) var sum = 0.0

    package init() {}

    /// All commits.
    package var count: UInt64 { counts.reduce(0, +) }

    /// Counts one commit.
    package mutating func record(_ duration: Duration) {
        let parts = duration.components
        let seconds = Double(parts.seconds) + Double(parts.attoseconds) * 1e-18
        counts[Self.bounds.firstIndex { seconds <= $0 } ?? Self.bounds.count] += 1
        sum += seconds
    }
}

/// What the store has done since it was opened.
package struct StoreFigures: Sendable, Hashable {
    package var commits = CommitDurations()
    /// Versions committed by publish, and by rollback.
    package var published: UInt64 = 0
    package var rolledBack: UInt64 = 0
    /// Publishes that failed, by cause: stale ETag, no space, outcome unknown, anything else.
    package var mismatched: UInt64 = 0
    package var refusedForSpace: UInt64 = 0
    package var unknownOutcomes: UInt64 = 0
    package var refused: UInt64 = 0
    /// Versions that retention removed.
    package var removed: UInt64 = 0
    /// Write-backs of the write-ahead log that did not get through.
    package var failedCheckpoints: UInt64 = 0

    package init() {}

    mutating func count(_ error: StoreError) {
        switch error {
        case .versionMismatch: mismatched += 1
        case .diskFull: refusedForSpace += 1
        case .outcomeUnknown: unknownOutcomes += 1
        default: refused += 1
        }
    }
}
