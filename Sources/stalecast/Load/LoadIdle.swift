import ArgumentParser
import CLinux
import StalecastLoad

struct LoadIdle: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "idle",
        abstract: "Hold many subscribers and measure what they cost while nothing is published.",
        discussion: """
            Heartbeats are the stream's comments; for long-polls, answers without a message. They come every 25 s \
            ± 10 % (55 s for polls): a shorter --duration sees few or none. Nothing is published, no token is needed.

            Examples:
              stalecast load idle --subscribers 10000
              stalecast load idle --subscribers 1000 --duration 10m --transport poll
              stalecast load idle --data /var/lib/stalecast --json

            Exit codes: 0 all held, 1 some refused or dropped; the others as for every command.
            """)

    @Option(help: .value("time", "How long to hold them."))
    var duration = Span(.seconds(60))

    @OptionGroup var options: LoadOptions

    func validate() throws {
        guard duration.duration > .zero else { throw ValidationError("--duration is more than 0 seconds") }
    }

    func run() async throws {
        let plan = try options.plan()
        LoadInterrupt.watch()
        let session = options.session(plan)
        let connected = try await session.connect(plan)
        let report = try await hold(session, connected, plan)
        await session.stop()
        session.progress.clear()
        try report.write(to: options.output)
        try LoadEnding.end(report.shortfall)
    }

    private func hold(
        _ session: LoadSession, _ connected: LoadSession.Connected, _ plan: LoadPlan
    ) async throws -> IdleReport {
        let (before, earlier, cpu) = (session.probe?.read(), session.tally.counts, stalecast_process_cpu_ns())
        let start = stalecast_monotonic_ns()
        let limit = Double(duration.nanoseconds) / 1e9
        try await session.wait(connected.ready > 0 ? duration.duration : .zero) {
            let seconds = Double(stalecast_monotonic_ns() - start) / 1e9
            let counts = session.tally.counts
            session.progress.show(
                "holding \(counts.live)", Int(seconds), of: Int(limit), "s  \(counts.heartbeats) heartbeats")
            return false
        }
        return IdleReport(
            plan: plan, process: session.probe?.process, connect: connected,
            seconds: Double(stalecast_monotonic_ns() - start) / 1e9, earlier: earlier, counts: session.tally.counts,
            before: before, after: session.probe?.read(), generatorCpuNs: stalecast_process_cpu_ns() - cpu)
    }
}
