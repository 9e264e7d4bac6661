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
