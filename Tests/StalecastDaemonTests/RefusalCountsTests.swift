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
}
