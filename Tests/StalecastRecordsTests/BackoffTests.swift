import StalecastRecords
import Testing

@Suite struct BackoffTests {
    /// The greatest of what is only bounded.
    private struct Greatest: RandomNumberGenerator {
        func next() -> UInt64 { .max }
    }

    @Test func theyGrowWhileNothingAnswers() {
        var (backoff, chance) = (Backoff(), Greatest())
        func next() -> Int { Int((backoff.next(&chance) / .milliseconds(1)).rounded()) }
        #expect([next(), next(), next(), next(), next()] == [200, 400, 800, 1000, 1000])
        backoff.end()
        #expect([next(), next()] == [200, 400])
    }
}
