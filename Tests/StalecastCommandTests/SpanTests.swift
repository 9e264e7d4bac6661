import Testing
import stalecast

@Suite struct SpanTests {
    @Test(arguments: [
        ("300ms", 300), ("60s", 60_000), ("2m", 120_000), ("1.5", 1500), ("0", 0), ("2h", 7_200_000),
        ("10000d", 864_000_000_000),
    ])
    func timesAreUnderstood(_ text: String, _ milliseconds: Int) {
        #expect(Span(argument: text)?.duration == .milliseconds(milliseconds))
    }

    @Test(arguments: ["300ms", "60s", "1500ms", "1d"])
    func timesAreSpelledAsTheyAreGiven(_ text: String) {
        #expect(Span(argument: text)?.defaultValueDescription == text)
    }

    @Test(arguments: [
        "", "ms", "s", "-1s", "3x", "1e9s", "nan", "1.2.3s", "10001d", "100000000000d", "9000000000000000s", "inf",
    ])
    func whatIsNoTimeIsRefused(_ text: String) {
        #expect(Span(argument: text) == nil)
    }
}
