/// Whether the log has lately given no answer: then a question that waits for one waits in vain. Two misses in a row,
/// one begun after the other, begin a silence; an answer ends it.
package struct LogSilence: Sendable {
    private var misses = 0
    private var lastMiss: Duration?

    package init() {}

    /// Callers should not wait while it is true; something should go on asking.
    package var isOn: Bool { misses >= 2 }

    /// - Parameter began: when the question was asked; many that waited together are one miss.
    package mutating func missed(since began: Duration, now: Duration) {
        if let lastMiss, began < lastMiss { return }
        (misses, lastMiss) = (misses + 1, now)
    }

    package mutating func answered() { (misses, lastMiss) = (0, nil) }
}
