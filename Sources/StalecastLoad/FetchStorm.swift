import CLinux
import Foundation
package import StalecastWire

/// Clients at work, and the storms measured on them. Ends with ``stop()``.
package struct FetchStorm: Sendable {
    package let plan: FetchPlan
    /// nil when the daemon's process is unknown or on another machine.
    package let probe: ServerProbe?
    package let progress: LoadProgress
    package let tally = FetchTally()

    package init(plan: FetchPlan, probe: ServerProbe?, progress: LoadProgress) {
        self.plan = plan
        self.probe = probe
        self.progress = progress
    }

    /// Time from the acknowledgement until the first fetch is planned, in nanoseconds: every loop knows by then.
    private static let leadNs: UInt64 = 50_000_000

    /// Starts the loops and waits until every client's connection stands.
    package func connect() async throws {
        FetchLoop.startAll(plan, tally)
        try await LoadLoops.wait(plan.timeout) {
            let counts = tally.counts
            progress.show("connected", counts.ready, of: plan.clients)
            return counts.ready + counts.refused >= plan.clients
        }
    }

    /// Publishes `version` and lets every client fetch.
    package func run<Published: Sendable>(
        _ number: Int, awaiting version: Int64,
        publish: @escaping @Sendable () async throws -> Published
    ) async throws -> (Result, Published) {
        probe?.forgetPeak()
        let start = stalecast_monotonic_ns()
        let published = try await publish()
        let acknowledged = stalecast_monotonic_ns()
        let (before, cpu) = (probe?.read(), stalecast_process_cpu_ns())
        tally.begin(at: acknowledged + Self.leadNs, version: version, fetchesPerClient: plan.fetchesPerClient)
        try await LoadLoops.wait(plan.window + plan.timeout) {
            let (done, expected, isComplete) = tally.progress
            let seconds = Double(stalecast_monotonic_ns() - acknowledged) / 1e9
            progress.show("storm \(number): fetched", done, of: expected, "\(Int(Double(done) / seconds))/s")
            return isComplete
        }
        let generatorCPU = stalecast_process_cpu_ns() - cpu
        let result = Result(
            storm: tally.storm, acknowledgedNs: acknowledged - start, before: before, after: probe?.read(),
            generatorCpuNs: generatorCPU)
        return (result, published)
    }

    /// Closes all connections and waits for the loops' ends.
    package func stop() async { await tally.loops.end() }

    /// One publish and the storm after it.
    package struct Result: Sendable {
        package let storm: FetchTally.Storm
        package let latencies: LatencySample
        /// Until the publish was answered.
        let acknowledgedNs: UInt64
        package let before: ServerProbe.Reading?
        package let after: ServerProbe.Reading?
        package let generatorCpuNs: UInt64

        package init(
            storm: FetchTally.Storm, acknowledgedNs: UInt64, before: ServerProbe.Reading?, after: ServerProbe.Reading?,
            generatorCpuNs: UInt64
        ) {
            self.storm = storm
            latencies = LatencySample(storm.latencies)
            self.acknowledgedNs = acknowledgedNs
            self.before = before
            self.after = after
            self.generatorCpuNs = generatorCpuNs
        }

        package var fetched: Int { latencies.count }
        /// Neither answered in time nor refused.
        package var missing: Int { max(0, storm.expected - fetched - storm.failed - storm.stale) }
        package var isGood: Bool { fetched == storm.expected && storm.different == 0 }

        /// Seconds from the first planned start to the last answer.
        package var seconds: Double? {
            storm.lastAt > storm.beginsAt ? Double(storm.lastAt - storm.beginsAt) / 1e9 : nil
        }
        package var perSecond: Double? { seconds.map { Double(fetched) / $0 } }
        package var bytesPerSecond: Double? { seconds.map { Double(storm.bytes) / $0 } }
        package var bytesEach: Double? { fetched > 0 ? Double(storm.bytes) / Double(fetched) : nil }

        package var serverMicroseconds: Double? {
            guard let before, let after, fetched > 0 else { return nil }
            return Double(after.cpuNs(since: before)) / 1000 / Double(fetched)
        }
        package var generatorMicroseconds: Double? {
            fetched > 0 ? Double(generatorCpuNs) / 1000 / Double(fetched) : nil
        }

        package var json: JSONValue {
            [
                "storm": .int(storm.number), "version": .string(String(storm.version)),
                "expected": .int(storm.expected),
                "fetched": .int(fetched), "failed": .int(storm.failed), "stale": .int(storm.stale),
                "different": .int(storm.different), "missing": .int(missing), "seconds": .measured(seconds),
                "perSecond": .measured(perSecond), "bytes": .int(storm.bytes), "bytesEach": .measured(bytesEach),
                "p50Ms": .measured(latencies.p50), "p90Ms": .measured(latencies.percentile(90)),
                "p99Ms": .measured(latencies.p99), "lastMs": .measured(latencies.last),
                "acknowledgedMs": .measured(LatencySample.milliseconds(acknowledgedNs)),
                "serverCpuMicrosecondsEach": .measured(serverMicroseconds),
                "generatorCpuMicrosecondsEach": .measured(generatorMicroseconds),
                "residentBytesBefore": before.map { .int($0.residentBytes) } ?? .null,
                "residentBytesAfter": after.map { .int($0.residentBytes) } ?? .null,
                "peakBytes": after.map { .int($0.peakBytes) } ?? .null,
            ]
        }
    }
}
