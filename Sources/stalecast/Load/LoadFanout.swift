import ArgumentParser
import StalecastLoad

struct LoadFanout: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fanout",
        abstract: "Publish to many subscribers and time how the message reaches them.",
        discussion: """
            Each round publishes a copy of the current template whose parameter `stalecast_load` has another value, \
            and waits until that version has reached every subscriber. Latency counts from just before the publish is \
            sent until the message lies at the subscriber's socket; a long-poll's CPU includes its next request. At the end the template found at the start is \
            rolled back to, unless another version was published meanwhile.

            CPU and memory of the daemon are read from /proc when its data directory (--data) is given and it runs on \
            this machine. Use a daemon just started for memory: one that held streams before has their memory ready.

            Examples:
              stalecast load fanout
              stalecast load fanout --subscribers 10000 --rounds 20 --histogram
              stalecast load fanout --subscribers 5000 --transport poll
              stalecast load fanout --data /var/lib/stalecast --json > fanout.json
              stalecast load fanout --edge https://edge:8443 --ca-file ca.pem \\
                --api-key KEY --control http://edge:8081 --token-file token

            Exit codes: 0 all delivered, 1 some not delivered or not connected; the others as for every command.
            """)

    @Option(help: .value("count", "How many publishes."))
    var rounds = 10

    @Option(help: .value("time", "Pause between two rounds."))
    var gap = Span(.milliseconds(300))

    @OptionGroup var publishing: LoadPublishingOptions

    @Flag(help: "Add a histogram of all delivery latencies.")
    var histogram = false

    @OptionGroup var options: LoadOptions

    func validate() throws {
        guard (1...100_000).contains(rounds) else { throw ValidationError("--rounds is 1 to 100000") }
    }

    func run() async throws {
        let api = try options.api()
        let plan = try options.plan()
        var publisher = try await publishing.publisher(api)
        let session = options.session(plan)
        var report = FanoutReport(plan: plan, process: session.probe?.process, showsHistogram: histogram)
        do {
            let connected = try await session.connect(plan)
            report.connect = connected
            if connected.ready > 0 {
                try await publisher.measure(
                    1...rounds, on: session, gap: gap.duration, words: ("round", "delivered")
                ) { report.rounds.append($0) }
            }
        } catch {
            report.failure = LoadEnding.failure(error)
        }
        report.counts = session.tally.counts
        await session.stop()
        // Restoring publishes once more: after the stop no stream counts it as a round.
        report.restoration = await publisher.restoration(isWanted: publishing.restore)
        session.progress.clear()
        try report.write(to: options.output)
        try LoadEnding.end(report.failure ?? report.shortfall)
    }
}
