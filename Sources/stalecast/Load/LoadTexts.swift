import StalecastLoad
import StalecastWire

/// Cost in µs of CPU for each `unit`, such as `delivery`, so that the load's own is not taken for the server's.
///
/// - Parameter server: nil when the server's process is not known.
func cpuText(server: Double?, load: Double?, for unit: String) -> String {
    let each = "server \(Figure.small(server)) µs/\(unit), this load \(Figure.small(load)) µs/\(unit)"
    guard let server, let load, server + load > 0 else { return each }
    return each + " (\(Figure.fixed(100 * load / (server + load), 0)) % of both)"
}

extension LoadSession.Connected {
    func lines(_ plan: LoadPlan) -> [String] {
        let kind = plan.transport == .sse ? "streams" : "long-polls"
        let memory =
            before == nil
            ? "not known (no daemon of --data on this machine)"
            : "\(Figure.mebibytes(before?.residentBytes)) → \(Figure.mebibytes(after?.residentBytes)) MiB resident, "
                + "\(Figure.kilobytes(residentBytesEach)) kB per subscriber"
        return [
            "connected    \(ready) of \(asked) \(kind) on topic \(plan.topic) in \(Figure.fixed(seconds, 2)) s "
                + "(\(Figure.perSecond(ratePerSecond))/s)",
            "             " + cpuText(server: serverMicroseconds, load: generatorMicroseconds, for: "connection"),
            "server       \(memory)",
        ]
    }

    /// `{"pid","residentBytesBefore","residentBytesAfter","residentBytesPerSubscriber"}`; null when not known.
    func serverJSON(_ process: Int32?) -> JSONValue {
        guard let process, let before, let after else { return .null }
        return [
            "pid": .int(process), "residentBytesBefore": .int(before.residentBytes),
            "residentBytesAfter": .int(after.residentBytes), "residentBytesPerSubscriber": .measured(residentBytesEach),
        ]
    }
}

extension LatencyHistogram {
    var json: JSONValue {
        .array(
            buckets.map {
                ["fromMs": .measured($0.lower), "toMs": .measured($0.upper), "count": .int($0.count)]
            })
    }
}

extension [LoadSession.Round] {
    var histogram: LatencyHistogram { LatencyHistogram(flatMap(\.latencies.values)) }

    /// Receivers by the median of the time that the last one took.
    var deliveriesPerSecond: Double? {
        guard let last = median(\.latencies.last), last > 0 else { return nil }
        return map { Double($0.delivered) }.median.map { $0 / last * 1000 }
    }

    var cpuText: String {
        stalecast.cpuText(
            server: median(\.serverMicroseconds), load: median(\.generatorMicroseconds), for: "delivery")
    }

    /// A line for each round, and one for their medians.
    ///
    /// - Parameters:
    ///   - round: the head of the column of numbers.
    ///   - delivered: that of what arrived.
    func table(_ round: String, _ delivered: String, hasMedian: Bool = true, _ palette: Palette) -> [String] {
        let figures = LoadSession.Round.figures
        let columns: [TextTable.Column] = figures.map { title, _, _ in
            // Percentiles stay in every terminal.
            title.hasPrefix("P") ? .right(title) : .spare(title)
        }
        let rows = map { round in
            ["\(round.number)", "\(round.version)", "\(round.delivered)/\(round.expected)"]
                + figures.map { Figure.small($0.value(round)) }
        }
        let medians = hasMedian ? [["median", "", ""] + figures.map { Figure.small(median($0.value)) }] : []
        return TextTable([.right(round), .right("VERSION"), .right(delivered)] + columns, cells: rows + medians)
            .lines(palette)
    }
}

extension LoadSession.Round {
    /// Failure of a round that did not reach all of its receivers, such as `webhooks`.
    func shortfall(_ receivers: String, _ advice: String) -> CommandFailure {
        CommandFailure(
            .refused, "version \(version) did not reach \(expected - delivered) of \(expected) \(receivers) in time",
            advice: "\(advice); --timeout gives a slow daemon longer.")
    }
}

extension LoadPlan {
    /// Document of a load: the plan's members, then `results`.
    func json(of command: String, _ results: JSONObject) -> JSONValue {
        let plan: JSONObject = [
            "command": .string(command), "transport": .string(transport.rawValue), "topic": .string(topic.description),
            "edge": .string(target.url), "subscribers": .int(subscribers), "threads": .int(threads),
            "interrupted": .bool(LoadInterrupt.isAsked),
        ]
        return .object(results.members.reduce(into: plan) { $0[$1.key] = $1.value })
    }
}
