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

    /// Reads the figures of any server that answers at Control's address.
    @Test(arguments: boundaryNumbers) func figuresOfADaemonAreShown(text: String) {
        let members = ["startedAt", "pid", "versionNumber", "streams", "residentBytes", "cpuSeconds"]
        for value in [text, "\"\(text)\""] {
            guard let number = try? JSONValue.parse(value.utf8) else { continue }
            if let seconds = number.seconds { #expect(seconds <= .seconds(1 << 32) && seconds >= .seconds(-(1 << 32))) }
            var figures = JSONObject()
            for member in members { figures[member] = number }
            var status = figures
            for part in ["store", "edge", "webhooks", "process"] { status[part] = .object(figures) }
            for part in ["scopes", "topics", "sources"] { status[part] = [.object(figures)] }
            #expect(!StatusReading(.object(status)).lines(Palette(isOn: false)).isEmpty)
        }
    }
}
