import ArgumentParser
import Foundation
import StalecastWire

struct Top: AsyncParsableCommand, ControlOptions {
    static let configuration = CommandConfiguration(
        commandName: "top",
        abstract: "Watch the daemon work: streams, deliveries, fetches, webhooks, sources.",
        discussion: """
            A screen that is drawn anew each interval, until Ctrl-C; the curves show the last minutes. Without a terminal, \
            and with --json, one sample is printed and it ends, or as many as --count says; rates are those of an interval.

            Examples:
              stalecast top
              stalecast top --interval 5s
              stalecast top --json | jq .deliveriesPerSecond
              stalecast top --json --count 60 > minute.jsonl
            """)

    @Option(help: .value("time", "Time between two samples."))
    var interval = Span(.seconds(1))

    @Option(help: "End after this many samples.")
    var count: Int?

    @OptionGroup var connection: ConnectionOptions

    func validate() throws {
        guard interval.duration >= .milliseconds(100) else { throw ValidationError("--interval is 100ms or more") }
        if let count, count < 1 { throw ValidationError("--count is 1 or more") }
    }

    func run() async throws {
        let client = try client()
        let isScreen = !output.isJSON && TerminalSize.canBeDrawnOn
        let wanted = count ?? (isScreen ? Int.max : 1)
        var reading = TopReading()
        // A daemon that cannot be asked ends the command; once the screen is open its error is drawn there.
        reading.take(try await Self.read(client), at: Self.now)
        if isScreen { try Screen.open(output) }
        defer { if isScreen { Screen.close() } }
        while reading.samples.count < wanted {
            try await Task.sleep(for: interval.duration)
            do throws(CommandFailure) {
                reading.take(try await Self.read(client), at: Self.now)
            } catch {
                guard isScreen else { throw error }
                try Screen.draw([output.palette.red(error.sentence.printable)], output)
                continue
            }
            if let json = reading.json, output.isJSON {
                try output.line(json.text())
            } else {
                let width = TerminalSize.forTables ?? 200
                let lines = reading.lines(output.palette, width: width, at: .now(), clock: LocalClock.asked)
                if isScreen { try Screen.draw(lines, output) } else { try output.lines(lines) }
            }
            // The capacity is never reached by a count.
            if let count, reading.samples.count >= count { return }
        }
    }

    private static func read(_ client: ControlClient) async throws(CommandFailure) -> JSONValue {
        try await client.send("GET", "/status").json()
    }

    private static var now: Double { (ContinuousClock.now - start) / .seconds(1) }
    private static let start = ContinuousClock.now - .seconds(1)
}
