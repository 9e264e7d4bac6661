import StalecastRecords

/// Entries to ask for in one read. What they weigh is known only when they come: after a read without an answer it is
/// fewer, since that may have been too much for the time, or the room, that one answer has. It may also have been the
/// line, so up to the size that had no answer it grows with each answer, and only there with care.
struct PageLimit: Sendable, Hashable {
    /// Most entries of a page where nothing has failed.
    static let most = 100
    /// Answers in a row after which a size is tried that had none.
    private static let confidence = 8

    private(set) var entries = most
    private var answers = 0
    /// Size of the first read without an answer after one that had one; nil: none is known to be too much.
    private var unanswered: Int?
    private var hasFailed = false

    mutating func failed(_ error: LogError) {
        answers = 0
        // What was certainly not done was not too much, but not sent.
        guard case .unknown = error else { return }
        if !hasFailed { unanswered = entries }
        hasFailed = true
        entries = max(1, entries / 2)
    }

    mutating func succeeded() {
        hasFailed = false
        answers += 1
        if let unanswered, unanswered <= entries { self.unanswered = nil }
        let isDoubtful = unanswered.map { $0 <= entries * 2 } ?? false
        guard answers >= (isDoubtful ? Self.confidence : 1) else { return }
        (entries, answers) = (min(Self.most, entries * 2), 0)
    }
}
