import StalecastLoad
import StalecastWire

/// Everything `load webhooks` has measured, as a table or as JSON.
struct WebhookLoadReport {
    let plan: WebhookPlan
    /// The daemon's process; nil when it is not known.
    let process: Int32?
    let showsHistogram: Bool
    var registeredSeconds: Double?
    /// The publish that made the connections.
    var first: LoadSession.Round?
    var rounds: [LoadSession.Round] = []
    var counts = LoadTally.Counts()
    var restoration = LoadRestoration.notNeeded
    /// Failure to remove the load's webhooks; nil when none is left.
    var removal: CommandFailure?
    /// Failure that broke the measurement off.
    var failure: CommandFailure?

    /// Failure to deliver everything, or to put everything back; nil when all is well.
    var shortfall: CommandFailure? {
        if case .failed(let failure) = restoration { return failure }
        if let removal { return removal }
        if counts.backwards > 0 {
            return CommandFailure(.refused, "\(counts.backwards) requests brought an older version after a newer one")
        }
        guard let round = (rounds + [first].compactMap { $0 }).first(where: { !$0.isComplete }) else { return nil }
        return round.shortfall("webhooks", "`stalecast webhooks list` shows their states")
    }

    func write(to output: Output) throws(CommandFailure) {
        try output.show(json, lines(output.palette))
    }

    // MARK: Text

    private func lines(_ palette: Palette) -> [String] {
        let holes = plan.blackHoles > 0 ? " and \(plan.blackHoles) black holes" : ""
        var lines = [
            "registered   \(plan.receivers) webhooks\(holes), mode \(plan.mode), in "
                + "\(Figure.fixed(registeredSeconds, 2)) s"
        ]
        if let first { lines += ["", palette.bold("with new connections")] + table([first], palette) }
        if !rounds.isEmpty { lines += ["", palette.bold("afterwards")] + table(rounds, palette) + [""] + summary }
        if showsHistogram, !rounds.isEmpty {
            lines += ["", palette.bold("latency, all publishes")] + rounds.histogram.lines()
        }
        return lines + ["template     \(restoration.sentence)"]
    }

    private func table(_ rounds: [LoadSession.Round], _ palette: Palette) -> [String] {
        rounds.table("PUBLISH", "TOLD", hasMedian: rounds.count > 1, palette)
    }

    private var summary: [String] {
        [
            "deliveries   \(Figure.perSecond(rounds.deliveriesPerSecond))/s (webhooks per median time of the last delivery)",
            "requests     \(counts.requests) over \(counts.connections) connections, \(counts.repeated) repeated, "
                + "\(counts.backwards) out of order",
            "CPU          \(rounds.cpuText)",
            "             on the same machine: the latencies include this load's work",
        ]
    }

    // MARK: JSON

    private var json: JSONValue {
        [
            "command": "webhooks", "scope": .string(plan.scope.description), "mode": .string(plan.mode),
            "receivers": .int(plan.receivers), "blackHoles": .int(plan.blackHoles), "threads": .int(plan.threads),
            "interrupted": .bool(LoadInterrupt.isAsked), "registeredSeconds": .measured(registeredSeconds),
            "first": first?.json ?? .null, "publishes": .array(rounds.map(\.json)),
            "median": rounds.medians, "deliveriesPerSecond": .measured(rounds.deliveriesPerSecond),
            "requests": .int(counts.requests), "connections": .int(counts.connections),
            "repeated": .int(counts.repeated), "outOfOrder": .int(counts.backwards),
            "pid": process.map { .int($0) } ?? .null, "restoration": .string(restoration.sentence),
            "histogram": showsHistogram ? rounds.histogram.json : nil,
        ]
    }
}
