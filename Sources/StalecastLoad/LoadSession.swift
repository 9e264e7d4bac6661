import CLinux
import Foundation
import StalecastWire

/// Subscribers at work, and the steps that are measured on them. Ends with ``stop()``.
package struct LoadSession: Sendable {
    package let plan: LoadPlan
    /// Nil when the daemon's process is unknown or on another machine.
    package let probe: ServerProbe?
    package let progress: LoadProgress
    package let tally = LoadTally()

    package init(plan: LoadPlan, probe: ServerProbe?, progress: LoadProgress) {
        self.plan = plan
        self.probe = probe
        self.progress = progress
    }

    /// How often the state is looked at while waiting; what is measured is stamped by the loops.
    private static let glance: Duration = .milliseconds(20)
    /// Time for the server to become quiet before its memory is read.
    private static let settling: Duration = .milliseconds(300)

    /// Starts the loops and waits until all subscribers stand, some were refused, or the time is up.
    package func connect() async throws -> ConnectResult {
        let before = probe?.read()
        let (start, cpu) = (stalecast_monotonic_ns(), stalecast_process_cpu_ns())
        SubscriberLoop.startAll(plan, tally)
        try await wait(plan.timeout) {
            let counts = tally.counts
            progress.show("connected", counts.ready, of: plan.subscribers, Self.rate(counts.ready, since: start))
            return counts.ready + counts.refused >= plan.subscribers
        }
        let generatorCPU = stalecast_process_cpu_ns() - cpu
        try await Task.sleep(for: Self.settling)
        return ConnectResult(
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
    ) async throws -> (RoundResult, Published) {
        tally.begin(awaiting: version)
        let (before, cpu, start) = (probe?.read(), stalecast_process_cpu_ns(), stalecast_monotonic_ns())
        async let delivered: Void = waitForDelivery(number, since: start)
        let published = try await publish()
        let acknowledged = stalecast_monotonic_ns() - start
        try await delivered
        let used = stalecast_process_cpu_ns() - cpu
        let result = RoundResult(
            number: number, version: version, round: tally.currentRound, startedAt: start,
            acknowledgedNs: acknowledged, serverCpuNs: probe?.read().flatMap { now in before.map(now.cpuNs(since:)) },
            generatorCpuNs: used)
        return (result, published)
    }

    private func waitForDelivery(_ number: Int, since start: UInt64) async throws {
        try await wait(plan.timeout) {
            let (count, expected, isComplete) = tally.delivered
            progress.show("round \(number): delivered", count, of: expected)
            return isComplete
        }
    }

    /// Waits until `isDone`, at most for `limit`, at most until somebody presses Ctrl-C.
    package func wait(_ limit: Duration, until isDone: () -> Bool) async throws {
        let deadline = ContinuousClock.now + limit
        while !isDone(), !LoadInterrupt.isAsked, ContinuousClock.now < deadline {
            try await Task.sleep(for: Self.glance)
        }
    }

    /// Closes all connections and waits for the loops' ends.
    package func stop() async {
        tally.stop()
        while tally.endedLoops < plan.threads {
            do { try await Task.sleep(for: Self.glance) } catch { return }  // cancelled: the process is ending
        }
    }
}
