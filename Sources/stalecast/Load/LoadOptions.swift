import ArgumentParser
import Foundation
import StalecastLoad
import StalecastWire

struct LoadOptions: ParsableArguments, ScopedControlOptions {
    @Option(help: .value("count", "How many subscribers."))
    var subscribers = 1000

    @Option(help: "How they listen: sse or poll.")
    var transport = LoadTransport.sse

    @Option(
        help: .value("name", "The topic they subscribe to (default: the scope's PUSH_RC or PUSH_RC_SERVER)."),
        completion: .topics)
    var topic: String?

    @Option(help: .value("time", "Longest wait for all to connect, and for one round."))
    var timeout = Span(.seconds(30))

    @Option(help: .value("count", "Threads of the load; one keeps about three cores of a daemon busy."))
    var threads = 1

    @Option(help: .value("count", "Connections being made at once."))
    var inFlight = 256

    @Option(help: .value("key", "An API key or a token, when Edge asks for one (default: $STALECAST_API_KEY)."))
    var apiKey: String?

    @OptionGroup var scoped: ScopedOptions

    func validate() throws {
        guard (1...1_000_000).contains(subscribers) else { throw ValidationError("--subscribers is 1 to 1000000") }
        guard (1...16).contains(threads) else { throw ValidationError("--threads is 1 to 16") }
        guard (1...100_000).contains(inFlight) else { throw ValidationError("--in-flight is 1 to 100000") }
        guard timeout.duration > .zero else { throw ValidationError("--timeout is more than 0 seconds") }
    }

    /// The plan, with its limits checked and the target known to answer.
    func plan() throws(CommandFailure) -> LoadPlan {
        let scope = try scoped.scope()
        let name = topic ?? scope.announcedTopic.description
        let topic = try checked(try TopicName(name))
        let plan = LoadPlan(
            target: try connection.loadTarget(), subscribers: subscribers, transport: transport, scope: scope,
            topic: topic, apiKey: try key(), threads: min(threads, subscribers), inFlight: inFlight)
        try loading(try plan.check())
        return plan
    }

    private func key() throws(CommandFailure) -> String? {
        let key = apiKey ?? ProcessInfo.processInfo.environment["STALECAST_API_KEY"] ?? ""
        guard key.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw CommandFailure(.usage, "an API key has visible characters only")
        }
        return key.isEmpty ? nil : key
    }

    /// A session that has not begun to connect.
    func session(_ plan: LoadPlan) -> LoadSession {
        LoadSession(timeout: timeout.duration, probe: connection.probe(of: plan.target))
    }
}

struct LoadPublishingOptions: ParsableArguments {
    @Flag(help: "Publish although others are subscribed or have webhooks: they hear of every round.")
    var yes = false

    @Flag(inversion: .prefixedNo, help: "Roll back to the version found at the start when done.")
    var restore = true

    /// Reads the template that is there, refuses to disturb others, and minds Ctrl-C from then on.
    func publisher(_ api: TemplateAPI) async throws(CommandFailure) -> LoadPublisher {
        let publisher = try await LoadPublisher(api)
        try await publisher.beSureNobodyListens(isPermitted: yes)
        LoadInterrupt.watch()
        return publisher
    }
}

extension LoadTransport: ExpressibleByArgument {}

extension ConnectionOptions {
    /// Edge's address, resolved and known to answer.
    func loadTarget() throws(CommandFailure) -> LoadTarget {
        let edge = try place.edgeAddress()
        return try loading(try LoadTarget(url: edge.url, origin: edge.origin, caFile: edge.caFile))
    }

    /// The process that `endpoints.json` names, if it is the one behind `target` and can be read; else nil.
    func probe(of target: LoadTarget) -> ServerProbe? {
        // No endpoints file: nothing is known about the process, which is not an error.
        guard target.isLoopback, let endpoints = try? data.running().endpoints(), endpoints.isRunning,
            let process = endpoints.process,
            let edge = try? ServerAddress(endpoints.edge, from: data.running().endpointsFile), edge.url == target.url
        else { return nil }
        let probe = ServerProbe(process: process)
        return probe.read() == nil ? nil : probe
    }
}
