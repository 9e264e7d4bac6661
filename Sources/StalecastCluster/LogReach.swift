import StalecastRecords

/// Whether the log gives answers that can be used, and what of that was reported.
struct LogReach {
    /// Why it gives none; nil: it does.
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
