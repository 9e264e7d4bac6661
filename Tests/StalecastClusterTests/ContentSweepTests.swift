import StalecastCluster
import Testing

@Suite struct ContentSweepTests {
    private func content(_ digest: String, _ revision: Int64 = 1) -> StoredContent {
        StoredContent(digest: digest, revisions: ["0": revision, "all": revision + 1])
    }

    @Test func whatIsUnusedTenMinutesLongGoes() {
        var sweep = ContentSweep()
        let stored = [content("a"), content("b")]
        #expect(sweep.listed(stored, used: ["b"], now: .zero).isEmpty)
        #expect(sweep.listed(stored, used: ["b"], now: .seconds(599)).isEmpty)
        #expect(sweep.listed(stored, used: ["b"], now: .seconds(600)) == [content("a")])
    }

    @Test func whatWasStoredAnewOrUsedMeanwhileBeginsAnew() {
        var sweep = ContentSweep()
        _ = sweep.listed([content("a"), content("b")], used: [], now: .zero)
        _ = sweep.listed([content("a"), content("b")], used: ["b"], now: .seconds(300))
        #expect(sweep.listed([content("a", 7), content("b")], used: [], now: .seconds(700)).isEmpty)
        #expect(sweep.listed([content("a", 7), content("b")], used: [], now: .seconds(1299)).isEmpty)
        let victims = sweep.listed([content("a", 7), content("b")], used: [], now: .seconds(1300))
        #expect(victims == [content("a", 7), content("b")])
    }
}
