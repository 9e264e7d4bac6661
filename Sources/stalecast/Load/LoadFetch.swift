import ArgumentParser
import StalecastLoad
import StalecastWire

/// `stalecast load fetch`: what happens when every client fetches after a publish.
struct LoadFetch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fetch",
        abstract: "Publish, and let many clients fetch the new version within a window.",
        discussion: """
            Every client has a connection that stands before the publish. Once the publish is acknowledged, each has \
            its time within --window to fetch; latency counts from that planned time until the answer's last byte, \
            also when the daemon or this load is late. Answers must have the acknowledged version or a newer one, and \
            all answers to one context must be equal.

            The published template is a copy of the current one with parameters and conditions named \
            stalecast_load_… that bring an answer to --size and make another answer for each of --outcomes contexts. \
            At the end the template found at the start is rolled back to, unless somebody else published meanwhile.

            With --window 0 all begin at once; with --keep-alive as well each client fetches again as soon as it has \
            its answer, which measures throughput.

            Examples:
              stalecast load fetch
              stalecast load fetch --clients 10000 --window 5s --rounds 3
              stalecast load fetch --clients 64 --keep-alive 1000 --window 0
              stalecast load fetch --data /var/lib/stalecast --json > fetch.json

            Exit codes: 0 all well, 1 answers were refused, stale or different, 7 the time was up; the others as for \
            every command.
            """)

    @Option(help: ArgumentHelp("How many clients.", valueName: "count"))
    var clients = 1000

    @Option(help: ArgumentHelp("Over what time they spread their fetches.", valueName: "time"))
    var window = Span(.seconds(5))

    @Option(help: ArgumentHelp("Fetches of each client, one after the other; needs --window 0.", valueName: "count"))
    var keepAlive = 1

    @Option(help: ArgumentHelp("How many publishes with a storm each.", valueName: "count"))
    var rounds = 1

    @Option(help: ArgumentHelp("Contexts with answers of their own.", valueName: "count"))
    var outcomes = 20

    @Option(help: ArgumentHelp("About how large an answer is, in kB.", valueName: "kB"))
    var size = 100

    @Option(help: ArgumentHelp("Longest wait for all to connect, and after the window.", valueName: "time"))
    var timeout = Span(.seconds(30))

    @Option(help: ArgumentHelp("Threads of the load.", valueName: "count"))
    var threads = 1

    @Option(help: ArgumentHelp("Connections being made at once.", valueName: "count"))
    var inFlight = 256

    @OptionGroup var publishing: LoadPublishingOptions

    @Flag(help: "Add a histogram of all latencies.")
    var histogram = false

    @OptionGroup var key: LoadKeyOptions
    @OptionGroup var scopeOptions: ScopeOptions
    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var outputOptions: OutputOptions

    func validate() throws {
        guard (1...1_000_000).contains(clients) else { throw ValidationError("--clients is 1 to 1000000") }
        guard (1...1_000_000).contains(keepAlive) else { throw ValidationError("--keep-alive is 1 to 1000000") }
        guard keepAlive == 1 || window.duration == .zero else {
            throw ValidationError("--keep-alive needs --window 0: who fetches again at once keeps no window")
        }
        guard clients * keepAlive <= 10_000_000 else {
            throw ValidationError("--clients times --keep-alive is at most 10000000")
        }
        guard window.duration <= .seconds(40) else {
            throw ValidationError("--window is at most 40s: connections kept idle for a minute are closed")
        }
        guard (1...1000).contains(rounds) else { throw ValidationError("--rounds is 1 to 1000") }
        guard (1...FetchTemplate.maxConditions).contains(outcomes) else {
            throw ValidationError("--outcomes is 1 to \(FetchTemplate.maxConditions)")
        }
        guard (1...FetchTemplate.maxAnswerBytes / 1024).contains(size) else {
            throw ValidationError("--size is 1 to \(FetchTemplate.maxAnswerBytes / 1024) kB")
        }
        guard (1...16).contains(threads) else { throw ValidationError("--threads is 1 to 16") }
        guard (1...100_000).contains(inFlight) else { throw ValidationError("--in-flight is 1 to 100000") }
        guard timeout.duration > .zero else { throw ValidationError("--timeout is more than 0 seconds") }
    }

    func run() async throws {
        let api = TemplateAPI(client: try connection.controlClient(), scope: try scopeOptions.scope())
        let plan = try plan(api.scope)
        let publisher = try await publishing.publisher(api)
        let storm = FetchStorm(
            plan: plan, probe: connection.probe(of: plan.target), progress: LoadProgress())
        var report = FetchReport(plan: plan, process: storm.probe?.process, showsHistogram: histogram)
        var latest = publisher.original
        do { try await measure(storm, publisher, &latest, &report) } catch {
            report.failure = LoadEnding.failure(error)
        }
        report.counts = storm.tally.counts
        await storm.stop()
        report.restoration = await publisher.restoration(after: latest, isWanted: publishing.restore)
        storm.progress.clear()
        try report.write(to: outputOptions.output)
        try LoadEnding.end(report.failure ?? report.shortfall)
    }

    private func plan(_ scope: Scope) throws(CommandFailure) -> FetchPlan {
        let plan = FetchPlan(
            target: try connection.loadTarget(), scope: scope, clients: clients,
            window: window.duration, fetchesPerClient: keepAlive,
            template: FetchTemplate(outcomes: outcomes, answerBytes: size * 1024), apiKey: try key.key(),
            threads: min(threads, clients), inFlight: inFlight, timeout: timeout.duration)
        try loading(plan.check)
        return plan
    }

    private func measure(
        _ storm: FetchStorm, _ publisher: LoadPublisher, _ latest: inout ServedTemplate, _ report: inout FetchReport
    ) async throws {
        try await storm.connect()
        guard storm.tally.counts.ready > 0 else { return }
        for number in 1...rounds where !LoadInterrupt.isAsked {
            let template = storm.plan.template.document(publisher.original.json, round: number)
            let publish = try publisher.prepare(template: template, over: latest)
            let (result, served) = try await storm.run(number, awaiting: latest.version + 1, publish: publish)
            latest = served
            report.storms.append(result)
            guard result.isGood else { return }
        }
    }
}
