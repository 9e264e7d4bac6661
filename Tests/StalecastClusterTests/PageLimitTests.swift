import StalecastCluster
import StalecastRecords
import StalecastTestSupport
import StalecastWire
import Testing

@Suite struct PageLimitTests {
    private var random = SeededRandom(seed: 1)
    private let logMetadata = LogMetadata(epoch: Epoch(String(repeating: "a", count: 26))!, revision: 1)

    private mutating func entry(after head: LogHead, bytes: Int) -> LogEntry {
        .next(after: head, content: Array(repeating: 7, count: bytes), &random)
    }

    /// Each page is a round trip: what was missed in hours comes in few. Heavy entries keep the pages small.
    @Test mutating func lightPagesInARowGrow() {
        func limits(_ pages: Int, bytes: Int) -> [Int] {
            var (limit, head) = (PageLimit(), LogHead.empty)
            return (0..<pages).map { number in
                let asked = limit.entries
                let entries = (0..<(number == pages - 1 ? 3 : asked)).map { _ in
                    let entry = entry(after: head, bytes: bytes)
                    head = LogHead(of: entry)
                    return entry
                }
                limit.succeeded(LogPage(logMetadata: logMetadata, head: head, entries: entries))
                return asked
            } + [limit.entries]
        }
        #expect(limits(6, bytes: 100) == [100, 200, 400, 800, 800, 800, 100], "at the log's end it begins anew")
        #expect(limits(4, bytes: 4000) == [100, 200, 233, 233, 100], "a megabyte")
        #expect(limits(4, bytes: 60_000) == [100, 100, 100, 100, 100])
    }

    @Test mutating func oneHeavyEntryKeepsThePagesSmall() {
        var (limit, head, entries) = (PageLimit(), LogHead.empty, [LogEntry]())
        for number in 1...limit.entries {
            let entry = entry(after: head, bytes: number == 50 ? 60_000 : 100)
            head = LogHead(of: entry)
            entries.append(entry)
        }
        limit.succeeded(LogPage(logMetadata: logMetadata, head: head, entries: entries))
        #expect(limit.entries == 100, "the next page may be as heavy as this entry")
    }
}

extension LogEntry {
    /// Entry of one version that follows `head`.
    static func next(after head: LogHead, content: [UInt8], _ random: inout SeededRandom) -> LogEntry {
        let change = TemplateChange(
            scope: Scope(project: .demo, namespace: .firebase), sequence: head.sequence + 1,
            metadata: VersionMetadata(number: 1, updateTime: Timestamp(microseconds: 0)), etag: "", changedKeys: nil)
        return LogEntry(
            change: change, publish: .random(using: &random), after: head, node: "", content: .inline(content))
    }
}
