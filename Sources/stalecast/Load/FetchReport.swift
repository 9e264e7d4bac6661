import StalecastLoad
import StalecastWire

/// Everything `load fetch` has measured, as a table or as JSON.
struct FetchReport {
    let plan: FetchPlan
    let process: Int32?
    let showsHistogram: Bool
    var storms: [FetchStorm.Result] = []
    var counts = FetchTally.Counts()
    var restoration = LoadRestoration.notNeeded
    /// Failure that broke the measurement off.
    var failure: CommandFailure?

    /// Why not everything was fetched as it should be; nil when all is well.
    var shortfall: CommandFailure? {
        if case .failed(let failure) = restoration { return failure }
        let reason = counts.firstFailure.map { ": \($0.sentence)" } ?? ""
        if counts.refused > 0 || counts.ready < plan.clients {
            return CommandFailure(
                .refused, "\(plan.clients - counts.ready) of \(plan.clients) clients did not connect\(reason)",
                advice: "The daemon has a connection cap and a descriptor limit; `stalecast status` shows refusals.")
        }
        guard let bad = storms.first(where: { !$0.isGood }) else { return nil }
        let storm = bad.storm
        if storm.stale > 0 {
            return CommandFailure(
                .refused, "\(storm.stale) answers were older than version \(storm.version), which was acknowledged")
        }
        if storm.different > 0 {
            return CommandFailure(.refused, "\(storm.different) answers differ from others of one context and version")
        }
        return CommandFailure(
            bad.missing > 0 ? .timedOut : .refused,
            "\(bad.missing + storm.failed) of \(storm.expected) fetches were not answered\(reason)",
            advice: bad.missing > 0 ? "--timeout gives a slow daemon longer." : Self.advice(counts.firstFailure))
    }

    private static func advice(_ failure: LoadTally.Failure?) -> String? {
        switch failure {
        case .status(403)?: "The daemon asks for an API key: give one with --api-key."
        case .status(404)?: "Is the project and namespace right, and one that clients may fetch?"
        default: nil
        }
    }

    func write(to output: Output) throws(CommandFailure) {
        try output.show(json, lines(output.palette))
    }

    // MARK: Text

    private func lines(_ palette: Palette) -> [String] {
        var lines = table(palette) + [""] + summary
        if showsHistogram {
            let all = LatencyHistogram(storms.flatMap(\.latencies.values))
            lines += ["", palette.bold("from planned start to last byte, all storms")] + all.lines()
        }
        return lines + ["template     \(restoration.sentence)"]
    }

    private func table(_ palette: Palette) -> [String] {
        var table = TextTable(
            .right("STORM"), .right("VERSION"), .right("FETCHED"), .right("SECONDS"), .right("RATE /s"),
            .right("P50 ms"), .right("P99 ms"), .right("LAST ms"), .right("SERVER µs"), .right("LOAD µs"),
            .right("PEAK MiB"))
        for result in storms {
            table.add(
                String(result.storm.number), String(result.storm.version), "\(result.fetched)/\(result.storm.expected)",
                Figure.fixed(result.seconds, 3), Figure.perSecond(result.perSecond),
                Figure.milliseconds(result.latencies.p50), Figure.milliseconds(result.latencies.p99),
                Figure.milliseconds(result.latencies.last), Figure.microseconds(result.serverMicroseconds),
                Figure.microseconds(result.generatorMicroseconds), Figure.mebibytes(result.after?.peakBytes))
        }
        return table.lines(palette)
    }

    private var summary: [String] {
        let share = CPUShare(
            server: storms.compactMap(\.serverMicroseconds).median,
            load: storms.compactMap(\.generatorMicroseconds).median)
        let rate = storms.compactMap(\.bytesPerSecond).median
        let window = Span(plan.window).defaultValueDescription
        return [
            "clients      \(counts.ready) of \(plan.clients), \(plan.template.outcomes) contexts, "
                + "\(plan.fetchesPerClient) fetches each, begun within \(window)",
            "answers      \(Figure.kilobytes(storms.compactMap(\.bytesEach).median)) kB, "
                + "\(Figure.mebibytes(rate.map { Int($0) })) MiB/s",
            "wrong        \(sum(\.failed)) failed, \(sum(\.stale)) stale, \(sum(\.different)) different",
            "memory       \(memory)",
            "CPU          \(share.text("fetch"))",
        ] + (plan.target.isLoopback ? ["             on the same machine: the latencies include this load's work"] : [])
    }

    private func sum(_ figure: (FetchTally.Storm) -> Int) -> Int { storms.reduce(0) { $0 + figure($1.storm) } }

    private var memory: String {
        guard let first = storms.first?.before, let last = storms.last?.after else {
            return "not known (no daemon of --data on this machine)"
        }
        let peak = storms.compactMap { $0.after?.peakBytes }.max()
        return "\(Figure.mebibytes(first.residentBytes)) → \(Figure.mebibytes(last.residentBytes)) MiB resident, "
            + "at most \(Figure.mebibytes(peak)) MiB in a storm"
    }

    // MARK: JSON

    private var json: JSONValue {
        var object: JSONObject = ["command": "fetch", "edge": .string(plan.target.url)]
        object["scope"] = .string(plan.scope.description)
        object["clients"] = .int(plan.clients)
        object["connected"] = .int(counts.ready)
        object["outcomes"] = .int(plan.template.outcomes)
        object["fetchesPerClient"] = .int(plan.fetchesPerClient)
        object["windowMs"] = .int(Int(plan.window / .milliseconds(1)))
        object["threads"] = .int(plan.threads)
        object["interrupted"] = .bool(LoadInterrupt.isAsked)
        object["storms"] = .array(storms.map(\.json))
        object["median"] = [
            "perSecond": .measured(storms.compactMap(\.perSecond).median),
            "p50Ms": .measured(storms.compactMap(\.latencies.p50).median),
            "p99Ms": .measured(storms.compactMap(\.latencies.p99).median),
            "serverCpuMicrosecondsEach": .measured(storms.compactMap(\.serverMicroseconds).median),
            "generatorCpuMicrosecondsEach": .measured(storms.compactMap(\.generatorMicroseconds).median),
        ]
        object["pid"] = process.map { .int($0) } ?? .null
        object["restoration"] = .string(restoration.sentence)
        if showsHistogram { object["histogram"] = LatencyHistogram(storms.flatMap(\.latencies.values)).json }
        return .object(object)
    }
}
