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
}
