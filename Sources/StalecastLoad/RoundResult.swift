package import StalecastWire

/// One publish and what became of it.
package struct RoundResult: Sendable {
    package let number: Int
    package let version: Int64
    /// Subscribers that stood when the round began.
    package let expected: Int
    /// Those that ended in the round without the version.
    package let lost: Int
    /// From just before the publish was sent until the version was there, per subscriber.
    package let latencies: LatencySample
    /// Until the publish was answered.
    package let acknowledgedNs: UInt64
    /// CPU time in the round, the publish itself included; nil when the server's process is not known.
    let serverCpuNs: UInt64?
    package let generatorCpuNs: UInt64

    init(
        number: Int, version: Int64, round: LoadTally.Round, startedAt: UInt64, acknowledgedNs: UInt64,
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

    package var delivered: Int { latencies.count }
    package var isComplete: Bool { delivered >= expected }
    package var serverMicroseconds: Double? { serverCpuNs.flatMap(each) }
    package var generatorMicroseconds: Double? { each(generatorCpuNs) }

    private func each(_ nanoseconds: UInt64) -> Double? {
        delivered > 0 ? Double(nanoseconds) / 1000 / Double(delivered) : nil
    }

    package var json: JSONValue {
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
    package func show(_ result: RoundResult, _ round: String, _ delivered: String) -> Bool {
        let figures = [("p50", result.latencies.p50), ("p99", result.latencies.p99), ("last", result.latencies.last)]
        let text = figures.map { "\($0.0) \(Figure.milliseconds($0.1))" }.joined(separator: "  ")
        show("\(round) \(result.number): \(delivered) \(result.delivered)/\(result.expected)  \(text) ms")
        return false
    }
}

extension [RoundResult] {
    /// Of what the rounds have of it; nil when none has.
    package func median(_ figure: (RoundResult) -> Double?) -> Double? { compactMap(figure).median }
}
