import StalecastRecords

/// Entries to ask for in one read. What they weigh is known only when they come: after a read without an answer it is
/// fewer, since that may have been too much for the time, or the room, that one answer has.
struct PageLimit: Sendable, Hashable {
    /// Most entries of a page where nothing has failed.
    static let most = 100
    /// Answers in a row after which twice as many are tried.
    private static let confidence = 8

    private(set) var entries = most
    private var answers = 0

    mutating func failed(_ error: LogError) {
        answers = 0
        // What was certainly not done was not too much, but not sent.
        if case .unknown = error { entries = max(1, entries / 2) }
    }

    mutating func succeeded() {
        answers += 1
        guard answers == Self.confidence else { return }
        (entries, answers) = (min(Self.most, entries * 2), 0)
    }
}
