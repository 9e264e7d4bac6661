package import StalecastWire

/// What the store has done since it was opened.
package struct StoreFigures: Sendable, Hashable {
    /// How long commits took, from the transaction's begin to durable.
    package var commits = Histogram(bounds: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5])
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
