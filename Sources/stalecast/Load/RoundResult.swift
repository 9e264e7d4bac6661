import StalecastWire

/// One publish and what became of it.
struct RoundResult: Sendable {
    let number: Int
    let version: VersionNumber
    /// Subscribers that stood when the round began.
    let expected: Int
    /// Those that ended in the round without the version.
    let lost: Int
    /// From just before the publish was sent until the version was there, per subscriber.
    let latencies: LatencySample
    /// Until the publish was answered.
    let acknowledgedNs: UInt64
    /// CPU time in the round, the publish itself included; nil when the server's process is not known.
    let serverCpuNs: UInt64?
    let generatorCpuNs: UInt64

    init(
        number: Int, version: VersionNumber, round: LoadTally.Round, startedAt: UInt64, acknowledgedNs: UInt64,
        serverCpuNs: UInt64?, generatorCpuNs: UInt64
    ) {
        self.number = number
        self.version = version
        self.expected = round.expected
        self.lost = round.lost
        self.latencies = LatencySample(round.arrivals.map { $0 > startedAt ? $0 - startedAt : 0 })
        self.acknowledgedNs = acknowledgedNs
        self.serverCpuNs = serverCpuNs
        self.generatorCpuNs = generatorCpuNs
    }

    var delivered: Int { latencies.count }
    var isComplete: Bool { delivered >= expected }
    var serverMicroseconds: Double? { serverCpuNs.flatMap(each) }
    var generatorMicroseconds: Double? { each(generatorCpuNs) }

    private func each(_ nanoseconds: UInt64) -> Double? {
        delivered > 0 ? Double(nanoseconds) / 1000 / Double(delivered) : nil
    }

    var json: JSONValue {
        [
            "round": .int(number), "version": .string(String(version)), "expected": .int(expected),
            "delivered": .int(delivered), "lost": .int(lost), "firstMs": .measured(latencies.first),
            "p50Ms": .measured(latencies.p50), "p99Ms": .measured(latencies.p99), "lastMs": .measured(latencies.last),
            "acknowledgedMs": .measured(LatencySample.milliseconds(acknowledgedNs)),
            "serverCpuMicrosecondsEach": .measured(serverMicroseconds),
            "generatorCpuMicrosecondsEach": .measured(generatorMicroseconds),
        ]
    }
}

extension LoadProgress {
    /// Shows a round that is over; never done, so that a wait with it lasts its whole time.
    func show(_ result: RoundResult, _ round: String, _ delivered: String) -> Bool {
        let figures = [("p50", result.latencies.p50), ("p99", result.latencies.p99), ("last", result.latencies.last)]
        let text = figures.map { "\($0.0) \(Figure.milliseconds($0.1))" }.joined(separator: "  ")
        show("\(round) \(result.number): \(delivered) \(result.delivered)/\(result.expected)  \(text) ms")
        return false
    }
}

extension [RoundResult] {
    /// Of what the rounds have of it; nil when none has.
    func median(_ figure: (RoundResult) -> Double?) -> Double? { compactMap(figure).median }

    /// A line for each round, and one for their medians.
    ///
    /// - Parameters:
    ///   - round: the head of the column of numbers.
    ///   - delivered: that of what arrived.
    func table(_ round: String, _ delivered: String, hasMedian: Bool = true, _ palette: Palette) -> [String] {
        var table = TextTable(
            .right(round), .right("VERSION"), .right(delivered), .right("FIRST ms"), .right("P50 ms"),
            .right("P99 ms"), .right("LAST ms"), .right("ACK ms"), .right("SERVER µs"), .right("LOAD µs"))
        for round in self {
            table.add(
                String(round.number), String(round.version), "\(round.delivered)/\(round.expected)",
                Figure.milliseconds(round.latencies.first), Figure.milliseconds(round.latencies.p50),
                Figure.milliseconds(round.latencies.p99), Figure.milliseconds(round.latencies.last),
                Figure.milliseconds(LatencySample.milliseconds(round.acknowledgedNs)),
                Figure.microseconds(round.serverMicroseconds), Figure.microseconds(round.generatorMicroseconds))
        }
        guard hasMedian else { return table.lines(palette) }
        table.add(
            "median", "", "", Figure.milliseconds(median(\.latencies.first)),
            Figure.milliseconds(median(\.latencies.p50)), Figure.milliseconds(median(\.latencies.p99)),
            Figure.milliseconds(median(\.latencies.last)),
            Figure.milliseconds(median { LatencySample.milliseconds($0.acknowledgedNs) }),
            Figure.microseconds(median(\.serverMicroseconds)), Figure.microseconds(median(\.generatorMicroseconds)))
        return table.lines(palette)
    }
}
