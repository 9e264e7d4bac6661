import StalecastCluster
import Testing

@Suite struct PausesTests {
    /// The greatest of what is only bounded.
    private struct Greatest: RandomNumberGenerator {
        func next() -> UInt64 { .max }
    }

    @Test func theyGrowWhileNothingAnswers() {
        var (pauses, chance) = (Pauses(), Greatest())
        func next() -> Int { Int((pauses.next(&chance) / .milliseconds(1)).rounded()) }
        #expect([next(), next(), next(), next(), next()] == [200, 400, 800, 1000, 1000])
        pauses.end()
        #expect([next(), next()] == [200, 400])
    }

    /// Whatever the log answers meanwhile.
    @Test func whatCannotBeStoredIsTriedLessOftenAndToldOnce() {
        var (hindrance, chance) = (Hindrance(), Greatest())
        func next() -> Int? { hindrance.pause(&chance).map { Int(($0 / .milliseconds(1)).rounded()) } }
        #expect(next() == nil && hindrance.time(now: .seconds(9)) == .zero)
        #expect(hindrance.met("a", now: .seconds(1)) && next() == 200)
        #expect(!hindrance.met("a", now: .seconds(2)) && next() == 400)
        #expect(hindrance.met("b", now: .seconds(3)) && next() == 800, "another one is news, and no success")
        #expect(hindrance.time(now: .seconds(12)) == .seconds(11))
        #expect(hindrance.passed() && !hindrance.passed())
        #expect(hindrance.time(now: .seconds(13)) == .zero && next() == nil)
        #expect(hindrance.met("b", now: .seconds(14)) && next() == 200)
    }
}
