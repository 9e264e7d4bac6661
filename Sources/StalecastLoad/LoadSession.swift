import CLinux
package import StalecastWire

/// Subscribers at work, and the steps that are measured on them. Ends with ``stop()``.
package struct LoadSession: Sendable {
    /// The longest wait for one step: for all to be connected, or for one round to be delivered.
    private let timeout: Duration
    /// Nil when the daemon's process is unknown or on another machine.
    package let probe: ServerProbe?
    package let progress: LoadProgress
    package let tally = LoadTally()

    package init(timeout: Duration, probe: ServerProbe?, progress: LoadProgress = LoadProgress()) {
        (self.timeout, self.probe, self.progress) = (timeout, probe, progress)
    }

    /// Time for the server to become quiet before its memory is read.
    private static let settling: Duration = .milliseconds(300)

    /// Starts the loops and waits until all subscribers stand, some were refused, or the time is up.
    package func connect(_ plan: LoadPlan) async throws -> Connected {
        let before = probe?.read()
        let (start, cpu) = (stalecast_monotonic_ns(), stalecast_process_cpu_ns())
        SubscriberLoop.startAll(plan, tally)
        try await wait(timeout) {
            let counts = tally.counts
            progress.show("connected", counts.ready, of: plan.subscribers, Self.rate(counts.ready, since: start))
            return counts.ready + counts.refused >= plan.subscribers
        }
        // Read before the rest: settling is no part of what connecting cost.
        let generatorCPU = stalecast_process_cpu_ns() - cpu
        try await Task.sleep(for: Self.settling)
        return Connected(
            asked: plan.subscribers, counts: tally.counts, startedAt: start, generatorCpuNs: generatorCPU,
            before: before, after: probe?.read())
    }

    private static func rate(_ count: Int, since start: UInt64) -> String {
        let seconds = Double(stalecast_monotonic_ns() - start) / 1e9
        return seconds > 0 ? "\(Int(Double(count) / seconds))/s" : ""
    }

    /// One round: publishes with `publish` and waits until `version` has reached every subscriber, or the time is up.
    package func round<Published: Sendable>(
        _ number: Int, awaiting version: Int64,
        publish: @escaping @Sendable () async throws -> Published
    ) async throws -> (Round, Published) {
        tally.begin(awaiting: version)
        let (before, cpu, start) = (probe?.read(), stalecast_process_cpu_ns(), stalecast_monotonic_ns())
        // Deliveries arrive before the publish is answered.
        async let delivered: Void = waitForDelivery(number, since: start)
        let published = try await publish()
        let acknowledged = stalecast_monotonic_ns() - start
        try await delivered
        let (used, round) = (stalecast_process_cpu_ns() - cpu, tally.currentRound)
        let result = Round(
            number: number, version: version, expected: round.expected, lost: round.lost,
            latencies: LatencySample(round.arrivals.map { $0 > start ? $0 - start : 0 }), acknowledgedNs: acknowledged,
            serverCpuNs: probe?.read().flatMap { now in before.map(now.cpuNs(since:)) }, generatorCpuNs: used)
        return (result, published)
    }

    private func waitForDelivery(_ number: Int, since start: UInt64) async throws {
        try await wait(timeout) {
            let (count, expected, isComplete) = tally.delivered
            progress.show("round \(number): delivered", count, of: expected)
            return isComplete
        }
    }

    /// Waits until `isDone`, at most for `limit`, at most until the user presses Ctrl-C.
    package func wait(_ limit: Duration, until isDone: () -> Bool) async throws {
        let deadline = ContinuousClock.now + limit
        while !isDone(), !LoadInterrupt.isAsked, ContinuousClock.now < deadline {
            try await Task.sleep(for: LoadLoops.glance)
        }
    }

    /// Closes all connections and waits for the loops' ends.
    package func stop() async { await tally.loops.end() }

    /// Cost of connecting all subscribers once.
    package struct Connected: Sendable {
        package let asked: Int
        package let counts: LoadTally.Counts
        /// Nanoseconds of the monotonic clock.
        package let startedAt: UInt64
        package let generatorCpuNs: UInt64
        /// The server before and after; nil when its process is not known.
        package let before: ServerProbe.Reading?
        package let after: ServerProbe.Reading?

        package var ready: Int { counts.ready }
        package var isComplete: Bool { counts.ready == asked }

        /// Seconds from the first connection's begin to the last one that stood.
        package var seconds: Double? {
            counts.lastReadyAt > startedAt ? Double(counts.lastReadyAt - startedAt) / 1e9 : nil
        }

        package var ratePerSecond: Double? { seconds.map { Double(ready) / $0 } }

        /// Server CPU per connection in µs, from accept to `synced`.
        package var serverMicroseconds: Double? {
            guard let before, let after, ready > 0 else { return nil }
            return Double(after.cpuNs(since: before)) / 1000 / Double(ready)
        }

        package var generatorMicroseconds: Double? { ready > 0 ? Double(generatorCpuNs) / 1000 / Double(ready) : nil }

        /// Growth of the server's resident memory per subscriber, in bytes.
        package var residentBytesEach: Double? {
            guard let before, let after, ready > 0 else { return nil }
            return Double(after.residentBytes - before.residentBytes) / Double(ready)
        }

        package var json: JSONValue {
            [
                "asked": .int(asked), "connected": .int(ready), "refused": .int(counts.refused),
                "seconds": .measured(seconds), "ratePerSecond": .measured(ratePerSecond),
                "serverCpuMicrosecondsEach": .measured(serverMicroseconds),
                "generatorCpuMicrosecondsEach": .measured(generatorMicroseconds),
            ]
        }
    }

    package struct Round: Sendable {
        package let number: Int
        package let version: Int64
        /// Subscribers that stood when the round began.
        package let expected: Int
        /// Subscribers that ended in the round without the version.
        package let lost: Int
        /// Times from just before the publish was sent until the version was there, per subscriber.
        package let latencies: LatencySample
        /// Nanoseconds until the publish was answered.
        let acknowledgedNs: UInt64
        /// CPU time in the round, the publish itself included; nil when the server's process is not known.
        let serverCpuNs: UInt64?
        let generatorCpuNs: UInt64

        package var delivered: Int { latencies.count }
        package var isComplete: Bool { delivered >= expected }
        package var serverMicroseconds: Double? { serverCpuNs.flatMap(each) }
        package var generatorMicroseconds: Double? { each(generatorCpuNs) }

        private func each(_ nanoseconds: UInt64) -> Double? {
            delivered > 0 ? Double(nanoseconds) / 1000 / Double(delivered) : nil
        }

        private var acknowledgedMilliseconds: Double? { LatencySample.milliseconds(acknowledgedNs) }

        /// Figures in their order: the heading of a table's column, the member of a document, the value.
        package static let figures: [(title: String, member: String, value: @Sendable (Round) -> Double?)] = [
            ("FIRST ms", "firstMs", \.latencies.first), ("P50 ms", "p50Ms", \.latencies.p50),
            ("P99 ms", "p99Ms", \.latencies.p99), ("LAST ms", "lastMs", \.latencies.last),
            ("ACK ms", "acknowledgedMs", \.acknowledgedMilliseconds),
            ("SERVER µs", "serverCpuMicrosecondsEach", \.serverMicroseconds),
            ("LOAD µs", "generatorCpuMicrosecondsEach", \.generatorMicroseconds),
        ]

        package var json: JSONValue {
            let head: JSONObject = [
                "round": .int(number), "version": .string(String(version)), "expected": .int(expected),
                "delivered": .int(delivered), "lost": .int(lost),
            ]
            return .object(Self.figures.reduce(into: head) { $0[$1.member] = .measured($1.value(self)) })
        }
    }
}

extension JSONValue {
    /// A figure to four decimals; null when it could not be measured.
    package static func measured(_ value: Double?) -> JSONValue {
        value.map { .double(($0 * 10_000).rounded() / 10_000) } ?? .null
    }
}

extension LoadProgress {
    /// Shows a round that is over; never done, so that a wait with it lasts its whole time.
    package func show(_ result: LoadSession.Round, _ round: String, _ delivered: String) -> Bool {
        let figures = [("p50", result.latencies.p50), ("p99", result.latencies.p99), ("last", result.latencies.last)]
        let text = figures.map { "\($0.0) \(Figure.small($0.1))" }.joined(separator: "  ")
        show("\(round) \(result.number): \(delivered) \(result.delivered)/\(result.expected)  \(text) ms")
        return false
    }
}

extension [LoadSession.Round] {
    /// Median over the rounds that have the figure; nil when none has.
    package func median(_ figure: (LoadSession.Round) -> Double?) -> Double? { compactMap(figure).median }

    /// Medians of all figures, by their members.
    package var medians: JSONValue {
        .object(LoadSession.Round.figures.reduce(into: [:]) { $0[$1.member] = .measured(median($1.value)) })
    }
}
