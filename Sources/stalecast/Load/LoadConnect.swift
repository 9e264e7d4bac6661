import ArgumentParser
import StalecastLoad
import StalecastWire

struct LoadConnect: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "connect",
        abstract: "Connect many subscribers as fast as possible, once or again and again.",
        discussion: """
            Time counts from the first connection until the last subscriber has its `synced` (a long-poll: its first \
            answer). Between two storms all connections are closed. Nothing is published, no token is needed.

            Examples:
              stalecast load connect --subscribers 10000
              stalecast load connect --subscribers 10000 --repeat 5 --in-flight 1024
              stalecast load connect --edge http://127.0.0.1:8080 --json

            Exit codes: 0 all connected, 1 some refused, 7 the time was up; the others as for every command.
            """)

    @Option(name: .customLong("repeat"), help: .value("count", "How many storms."))
    var storms = 1

    @Option(help: .value("time", "Pause between two storms."))
    var gap = Span(.seconds(1))

    @OptionGroup var options: LoadOptions

    func validate() throws {
        guard (1...10_000).contains(storms) else { throw ValidationError("--repeat is 1 to 10000") }
    }

    func run() async throws {
        let plan = try options.plan()
        LoadInterrupt.watch()
        var results: [LoadSession.Connected] = []
        var process: Int32?
        for number in 1...storms where !LoadInterrupt.isAsked {
            let session = options.session(plan)
            process = session.probe?.process
            results.append(try await session.connect(plan))
            await session.stop()
            if number < storms { try await session.wait(gap.duration) { false } }
            session.progress.clear()
        }
        try write(results, plan, process)
        let topic = plan.topic.description
        try LoadEnding.end(results.lazy.compactMap { LoadEnding.shortfall($0, topic: topic) }.first)
    }

    private func write(_ results: [LoadSession.Connected], _ plan: LoadPlan, _ process: Int32?) throws(CommandFailure) {
        let output = options.output
        if output.isJSON { return try output.json(json(results, plan, process)) }
        let cells = results.enumerated().map { index, result in
            [
                String(index + 1), "\(result.ready)/\(result.asked)", String(result.counts.refused),
                Figure.fixed(result.seconds, 3), Figure.perSecond(result.ratePerSecond),
                Figure.small(result.serverMicroseconds), Figure.small(result.generatorMicroseconds),
                Figure.mebibytes(result.after?.residentBytes),
            ]
        }
        let titles = [
            "STORM", "CONNECTED", "REFUSED", "TO LAST s", "RATE /s", "SERVER µs", "LOAD µs", "RESIDENT MiB",
        ]
        let table = TextTable(titles.map { .right($0) }, cells: cells)
        try output.lines(table.lines(output.palette))
        let cost = cpuText(
            server: results.compactMap(\.serverMicroseconds).median,
            load: results.compactMap(\.generatorMicroseconds).median, for: "connection")
        try output.line("\nCPU          " + cost)
    }

    private func json(_ results: [LoadSession.Connected], _ plan: LoadPlan, _ process: Int32?) -> JSONValue {
        plan.json(
            of: "connect",
            [
                "storms": .array(results.map(\.json)),
                "medianSeconds": .measured(results.compactMap(\.seconds).median),
                "medianRatePerSecond": .measured(results.compactMap(\.ratePerSecond).median),
                "server": results.first?.serverJSON(process) ?? .null,
            ])
    }
}
