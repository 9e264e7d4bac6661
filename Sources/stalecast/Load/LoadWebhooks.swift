import ArgumentParser
import StalecastLoad
import StalecastWire

struct LoadWebhooks: AsyncParsableCommand, ScopedControlOptions {
    static let configuration = CommandConfiguration(
        commandName: "webhooks",
        abstract: "Publish to many webhooks, received in this process, and time how they are told.",
        discussion: """
            Every receiver is a listener of its own on an address of 127.100.0.0/16 that answers 204; the daemon must \
            be allowed to call them: STALECAST_WEBHOOKS_ALLOWED_ADDRESSES=127.0.0.0/8 stalecast serve. They are \
            registered before and removed after the load. The first publish, which makes the connections, is shown \
            apart. Latency counts from just before the publish is sent until the request lies at the receiver.

            CPU of the daemon is read from /proc when its data directory (--data) is given. Black holes are further \
            webhooks whose receivers accept connections and never answer: the others must not feel them.

            Examples:
              stalecast load webhooks
              stalecast load webhooks --receivers 1000 --publishes 20 --histogram
              stalecast load webhooks --receivers 1000 --black-holes 100
              stalecast load webhooks --receivers 10000 --gap 1s --publishes 30 --json

            Exit codes: 0 all told, 1 some not told or not registered; the others as for every command.
            """)

    @Option(help: .value("count", "How many webhooks that answer."))
    var receivers = 100

    @Option(help: .value("count", "How many more that never answer."))
    var blackHoles = 0

    @Option(help: .value("count", "How many publishes, besides the first."))
    var publishes = 10

    @Option(help: .value("time", "Pause between two publishes."))
    var gap = Span(.milliseconds(300))

    @Option(help: "latest, all or fifo.", completion: .list(["latest", "all", "fifo"]))
    var mode = "latest"

    @Option(help: .value("time", "Longest wait for one publish to reach all."))
    var timeout = Span(.seconds(30))

    @Option(help: .value("count", "Threads of the receivers."))
    var threads = 1

    @OptionGroup var publishing: LoadPublishingOptions

    @Flag(help: "Add a histogram of all latencies.")
    var histogram = false

    @OptionGroup var scoped: ScopedOptions

    func validate() throws {
        guard (1...20_000).contains(receivers) else { throw ValidationError("--receivers is 1 to 20000") }
        guard (0...20_000).contains(blackHoles) else { throw ValidationError("--black-holes is 0 to 20000") }
        guard (1...100_000).contains(publishes) else { throw ValidationError("--publishes is 1 to 100000") }
        guard ["latest", "all", "fifo"].contains(mode) else { throw ValidationError("--mode is latest, all or fifo") }
        guard (1...16).contains(threads) else { throw ValidationError("--threads is 1 to 16") }
        guard timeout.duration > .zero else { throw ValidationError("--timeout is more than 0 seconds") }
    }

    func run() async throws {
        let api = try api()
        let scope = api.scope
        var publisher = try await publishing.publisher(api)
        let plan = WebhookPlan(
            scope: scope, receivers: receivers, blackHoles: blackHoles, mode: mode, threads: min(threads, receivers))
        let listeners = try loading(try plan.listen())
        let probe = connection.probe(of: try connection.loadTarget())
        let session = LoadSession(timeout: timeout.duration, probe: probe)
        let registrations = WebhookRegistrations(
            api: WebhookAPI(client: api.client, project: scope.project), progress: session.progress)
        var report = WebhookLoadReport(plan: plan, process: session.probe?.process, showsHistogram: histogram)
        ReceiverLoop.startAll(plan, listeners, session.tally)
        do {
            try await registrations.removeLeftovers()
            report.registeredSeconds = try await registrations.register(listeners, plan)
            try await publisher.measure(
                0...publishes, on: session, gap: gap.duration, words: ("publish", "told")
            ) { if $0.number == 0 { report.first = $0 } else { report.rounds.append($0) } }
        } catch {
            report.failure = LoadEnding.failure(error)
        }
        report.counts = session.tally.counts
        // Webhooks go before the restoration, whose publish would be delivered to them as well.
        report.removal = await registrations.removeAll()
        await session.stop()
        report.restoration = await publisher.restoration(isWanted: publishing.restore)
        session.progress.clear()
        try report.write(to: output)
        try LoadEnding.end(report.failure ?? report.shortfall)
    }
}
