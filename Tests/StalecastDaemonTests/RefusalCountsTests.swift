import StalecastDaemon
import Testing

@Suite struct RefusalCountsTests {
    @Test func onlyWhatRoseIsSaidAndOnlyOnce() {
        var counts = RefusalCounts(["a": 2])
        let rises = counts.rises(to: ["a": 5, "b": 1, "c": 0])
        #expect(rises.map(\.reason) == ["a", "b"] && rises.map(\.count) == [3, 1])
        #expect(counts.rises(to: ["a": 5, "b": 1, "c": 0]).isEmpty)
        #expect(counts.rises(to: ["a": 5, "b": 2]).map(\.reason) == ["b"])
    }

    @Test func whoKnocksForEverMakesALineAnHour() {
        let (start, second) = (ContinuousClock.now, Duration.seconds(1))
        var (lines, total) = (RefusalLines(["a": 1]), 1)
        var written: [(reason: String, count: Int)] = []
        for time in 0...7300 {
            total += 1
            written += lines.due(of: ["a": total], at: start + second * time)
        }
        #expect(written.map(\.count) == [1, 3600, 3600])
        #expect(lines.due(of: ["a": total, "b": 1], at: start + second * 7301).map(\.reason) == ["b"])
        let last = lines.due(of: ["a": total], at: start + second * 7302, isEnd: true)
        #expect(last.map(\.reason) == ["a"] && last.map(\.count) == [100])
        #expect(lines.due(of: ["a": total], at: start + second * 20_000).isEmpty)
    }
}
