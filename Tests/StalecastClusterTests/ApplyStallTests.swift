import StalecastCluster
import Testing

@Suite struct ApplyStallTests {
    /// The greatest of what is only bounded.
    private struct Greatest: RandomNumberGenerator {
        func next() -> UInt64 { .max }
    }

    /// Holds the log's answers meanwhile.
    @Test func whatCannotBeStoredIsTriedLessOftenAndToldOnce() {
        var (applyStall, chance) = (ApplyStall(), Greatest())
        func next() -> Int? { applyStall.pause(&chance).map { Int(($0 / .milliseconds(1)).rounded()) } }
        #expect(next() == nil && applyStall.time(now: .seconds(9)) == .zero)
        #expect(applyStall.met("a", now: .seconds(1)) && next() == 200)
        #expect(!applyStall.met("a", now: .seconds(2)) && next() == 400)
        #expect(applyStall.met("b", now: .seconds(3)) && next() == 800, "another one is news, and no success")
        #expect(applyStall.time(now: .seconds(12)) == .seconds(11))
        #expect(applyStall.passed() && !applyStall.passed())
        #expect(applyStall.time(now: .seconds(13)) == .zero && next() == nil)
        #expect(applyStall.met("b", now: .seconds(14)) && next() == 200)
    }
}
