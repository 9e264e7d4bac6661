import StalecastTestSupport
import StalecastWire
import Testing
import stalecast

@Suite struct BoundaryNumberTests {
    /// `--since`, `--timeout`, `--wait` and their like.
    @Test(arguments: boundaryNumbers) func spansAreBoundedOrRefused(text: String) {
        for unit in ["", "ms", "s", "m", "h", "d"] {
            guard let span = Span(argument: text + unit) else { continue }
            #expect(span.duration >= .zero && span.duration <= .seconds(10_000 * 86_400))
            #expect(!span.defaultValueDescription.isEmpty)
        }
    }
}
