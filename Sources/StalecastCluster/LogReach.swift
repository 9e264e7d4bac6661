import StalecastRecords

/// Whether the log gives answers that can be used, and what of that was reported.
struct LogReach {
    /// Reason why the log gives no usable answer; nil while it does.
    private(set) var trouble: String?
    private var reported: (problem: String, at: Duration)?
    var backoff: Backoff
    /// Members can be away for different reasons: another one is reported after this long.
    private static let reportAgain = Duration.seconds(5)

    init(_ backoff: Backoff) { self.backoff = backoff }

    /// - Returns: whether that is news.
    mutating func answered() -> Bool {
        backoff.end()
        defer { (trouble, reported) = (nil, nil) }
        return trouble != nil
    }

    /// - Returns: whether that is news.
    mutating func missed(_ problem: String, now: Duration) -> Bool {
        trouble = problem
        if let reported, reported.problem == problem || now < reported.at + Self.reportAgain { return false }
        reported = (problem, now)
        return true
    }
}

/// Whether the log is silent, so that waiting for its answer is useless. Two misses in a row, one begun after the other,
/// begin a silence; an answer ends it.
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
