package import StalecastRecords

/// Number of entries to ask for in one read. Their size is known only when they arrive. A read without an answer halves
/// the number, because the answer may have been too large for its time or space limit. The cause may also have been the
/// network, so each answer doubles the number again; the size that failed is tried again only after ``confidence``
/// answers in a row. Pages in a row grow while they are light, because each takes a round trip, whatever it brings.
package struct PageLimit: Sendable, Hashable {
    /// Most entries of the first page, and of each where entries are heavy.
    static let most = 100
    /// Most entries of a page that follows a full and light one. The log may turn heavy there: 800 entries of 64 KiB are
    /// 50 MiB, less than the largest answer that etcd's client takes, and the page after that has ``most`` again.
    private static let mostLight = 800
    /// Bytes that more than ``most`` entries may weigh, if each is as heavy as the heaviest of the page before.
    private static let room = 1 << 20
    /// Bytes of an entry besides its content, about.
    private static let frame = 500
    /// Answers in a row after which a size is tried that had none.
    private static let confidence = 8

    package private(set) var entries = most
    private var answers = 0
    /// Size of the first read without an answer after one that had one; nil: none is known to be too much.
    private var unanswered: Int?
    private var hasFailed = false

    package init() {}

    package mutating func failed(_ error: LogError) {
        answers = 0
        // A read with any other error certainly failed for another reason than its size.
        guard case .unknown = error else { return }
        if !hasFailed { unanswered = entries }
        hasFailed = true
        entries = max(1, entries / 2)
    }

    package mutating func succeeded(_ page: LogPage) {
        hasFailed = false
        answers += 1
        if let unanswered, unanswered <= entries { self.unanswered = nil }
        let most = ceiling(after: page)
        if entries > most { (entries, answers) = (most, 0) }
        let isDoubtful = unanswered.map { $0 <= entries * 2 } ?? false
        guard answers >= (isDoubtful ? Self.confidence : 1) else { return }
        (entries, answers) = (min(most, entries * 2), 0)
    }

    private func ceiling(after page: LogPage) -> Int {
        // The log's end: what comes next may be anything.
        guard page.entries.count >= entries else { return Self.most }
        let heaviest = page.entries.reduce(0) { max($0, $1.contentBytes) } + Self.frame
        return min(Self.mostLight, max(Self.most, Self.room / heaviest))
    }
}
