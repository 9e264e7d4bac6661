import StalecastLoad
import StalecastWire

/// Everything `load fanout` has measured, as a table or as JSON.
struct FanoutReport {
    let plan: LoadPlan
    /// The daemon's process; nil when it is not known.
    let process: Int32?
    let showsHistogram: Bool
    var connect: LoadSession.Connected?
    var rounds: [LoadSession.Round] = []
    /// Counts at the end, before the load closed its connections.
    var counts = LoadTally.Counts()
    var restoration = LoadRestoration.notNeeded
    /// Failure that broke the measurement off.
    var failure: CommandFailure?

    /// Failure to deliver everything, or to restore the template; nil when all is well.
    var shortfall: CommandFailure? {
        if case .failed(let failure) = restoration { return failure }
        if let round = rounds.first(where: { !$0.isComplete }) {
            return round.shortfall(
                "subscribers",
                "Does topic \(plan.topic) stand for this scope and the parameter \(LoadPublisher.parameter)? `stalecast "
                    + "topics` shows it")
        }
        return connect.flatMap { LoadEnding.shortfall($0, topic: plan.topic.description) }
    }

    func write(to output: Output) throws(CommandFailure) {
        try output.show(json, lines(output.palette))
    }

    // MARK: Text

    private func lines(_ palette: Palette) -> [String] {
        var lines = connect?.lines(plan) ?? []
        if !rounds.isEmpty { lines += [""] + rounds.table("ROUND", "DELIVERED", palette) + [""] + summary }
        if showsHistogram, !rounds.isEmpty {
            lines += ["", palette.bold("delivery latency, all rounds")] + rounds.histogram.lines()
        }
        return lines + ["template     \(restoration.sentence)"]
    }

    private var summary: [String] {
        let reason = counts.dead > 0 ? counts.firstFailure.map { " (the first: \($0.sentence))" } ?? "" : ""
        return [
            "deliveries   \(Figure.perSecond(rounds.deliveriesPerSecond))/s (subscribers per median time of the last delivery)",
            "ended early  \(counts.dead)\(reason)",
            "CPU          \(rounds.cpuText)",
        ] + (plan.target.isLoopback ? ["             on the same machine: the latencies include this load's work"] : [])
    }

    // MARK: JSON

    private var json: JSONValue {
        plan.json(
            of: "fanout",
            [
                "connect": connect?.json ?? .null, "rounds": .array(rounds.map(\.json)), "median": rounds.medians,
                "deliveriesPerSecond": .measured(rounds.deliveriesPerSecond), "endedEarly": .int(counts.dead),
                "server": connect?.serverJSON(process) ?? .null, "restoration": .string(restoration.sentence),
                "histogram": showsHistogram ? rounds.histogram.json : nil,
            ])
    }
}
