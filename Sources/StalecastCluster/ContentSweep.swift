package import StalecastRecords

/// A long content as it is stored beside the log.
package struct StoredContent: Sendable, Hashable {
    /// Digest as its entries name it: SHA-256, 64 hexadecimal digits in lower case.
    package let digest: String
    /// Revision at which each piece of it was stored last. It changes when a node stores a piece again.
    package let revisions: [String: Int64]

    package init(digest: String, revisions: [String: Int64]) {
        self.digest = digest
        self.revisions = revisions
    }
}

/// Finds long contents that no entry refers to any more: found by one look at the log, removed by one ten minutes later
/// that finds them as they were. A proposer stores its content before it appends, and may be between the two. Times are
/// of a clock that only goes forward.
package struct ContentSweep: Sendable {
    /// Time for which a proposer asks for the outcome of its entry.
    package static let grace = Duration.seconds(600)

    private var unused: [StoredContent: Duration] = [:]

    package init() {}

    /// - Parameters:
    ///   - stored: all there are.
    ///   - used: digests that entries refer to, read after `stored` was.
    /// - Returns: those to be removed now.
    package mutating func listed(
        _ stored: [StoredContent], used: Set<String>, now: Duration
    ) -> [StoredContent] {
        let since = unused
        unused = [:]
        for content in stored where !used.contains(content.digest) { unused[content] = since[content] ?? now }
        return stored.filter { content in unused[content].map { now - $0 >= Self.grace } ?? false }
    }
}

extension ClusterNode {
    /// Most looks at one content while entries are appended; then it waits for the next call.
    private static let attempts = 20

    /// Removes long contents that no entry refers to, and that a call at least ``ContentSweep/grace`` ago found so as
    /// well. One node should; two do no harm.
    ///
    /// - Returns: how many were removed.
    package func sweepContents() async throws(LogError) -> Int {
        let stored = try await log.contents()
        // Read after them: all that was appended before is seen.
        var (used, head) = stored.isEmpty ? ([], LogHead.empty) : try await contentsUsed(after: .empty)
        var removed = 0
        for content in upkeep.contentSweep.listed(stored, used: used, now: now()) {
            for _ in 0..<Self.attempts where !used.contains(content.digest) {
                if try await log.remove(content, at: head) {
                    removed += 1
                    break
                }
                let more = try await contentsUsed(after: head)
                // It was stored again: a node is about to append it.
                if more.head == head { break }
                used.formUnion(more.used)
                head = more.head
            }
        }
        figures.sweptContents += removed
        return removed
    }

    /// Digests that entries behind `head` refer to, and the log's head when it had no more of them.
    ///
    /// - Throws: also when the log is not the one that had that head.
    private func contentsUsed(after head: LogHead) async throws(LogError) -> (used: Set<String>, head: LogHead) {
        var (used, last, limit) = (Set<String>(), head, PageLimit())
        while true {
            let page = try await log.page(after: last.sequence, &limit)
            for entry in page.entries {
                guard entry.sequence > last.sequence + 1 || entry.previous == last else {
                    throw .unknown("the log was replaced while it was read")
                }
                last = LogHead(of: entry)
                if case .beside(let key) = entry.content { used.insert(key.digest) }
            }
            // The newest entry is never pruned.
            if page.head == last { return (used, last) }
            if page.entries.isEmpty { throw .unknown("the log was replaced while it was read") }
        }
    }
}
