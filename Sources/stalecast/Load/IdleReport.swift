import StalecastLoad
import StalecastWire

struct IdleReport {
    let plan: LoadPlan
    let process: Int32?
    let connect: LoadSession.Connected
    /// Seconds for which the subscribers were held.
    let seconds: Double
    let earlier: LoadTally.Counts
    let counts: LoadTally.Counts
    let before: ServerProbe.Reading?
    let after: ServerProbe.Reading?
    let generatorCpuNs: UInt64

    private var dropped: Int { counts.dead - earlier.dead }
    private var heartbeats: Int { counts.heartbeats - earlier.heartbeats }

    /// The server's CPU in percent of one core; nil when its process is not known.
    private var serverPercent: Double? {
        guard let before, let after else { return nil }
        return Self.percent(after.cpuNs(since: before), seconds)
    }

    private var generatorPercent: Double? { Self.percent(generatorCpuNs, seconds) }

    private static func percent(_ nanoseconds: UInt64, _ seconds: Double) -> Double? {
        seconds > 0 ? Double(nanoseconds) / 1e7 / seconds : nil
    }

    /// Reason why streams were lost; nil when all were held.
    var shortfall: CommandFailure? {
        if let failure = LoadEnding.shortfall(connect, topic: plan.topic.description) { return failure }
        guard counts.dead > 0 else { return nil }
        let reason = counts.firstFailure.map { ": \($0.sentence)" } ?? ""
        return CommandFailure(.refused, "\(counts.dead) of \(connect.ready) subscribers were dropped\(reason)")
    }

    func write(to output: Output) throws(CommandFailure) {
        if output.isJSON { return try output.json(json) }
        let growth = after.flatMap { after in before.map { after.residentBytes - $0.residentBytes } }
        let lines = [
            "held         \(counts.live) of \(connect.ready) for \(Figure.fixed(seconds, 1)) s; \(dropped) dropped",
            "heartbeats   \(heartbeats) (\(Figure.fixed(Double(heartbeats) / seconds, 1))/s)",
            "CPU          server \(Figure.fixed(serverPercent, 2)) % of a core, "
                + "this load \(Figure.fixed(generatorPercent, 2)) %",
            "memory       \(Figure.kilobytes(connect.residentBytesEach)) kB per subscriber; "
                + "\(Figure.mebibytes(growth)) MiB more while they were held",
        ]
        try output.lines(connect.lines(plan) + lines)
    }

    private var json: JSONValue {
        plan.json(
            of: "idle",
            [
                "connect": connect.json, "seconds": .measured(seconds), "heartbeats": .int(heartbeats),
                "dropped": .int(dropped), "serverCpuPercent": .measured(serverPercent),
                "generatorCpuPercent": .measured(generatorPercent), "server": connect.serverJSON(process),
            ])
    }
}
