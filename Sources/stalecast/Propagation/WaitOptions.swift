import ArgumentParser
import StalecastWire

/// Waiting until a version has come to those it is for.
struct WaitOptions: ParsableArguments {
    /// What to do when the time is up. Raw values are what is typed.
    enum OnTimeout: String, ExpressibleByArgument, CaseIterable { case fail, warn, rollback }

    enum Stage: String, ExpressibleByArgument, CaseIterable { case sent, received, fetched, active }

    @Option(
        name: .customLong("wait"), defaultAsFlag: "99%",
        help: ArgumentHelp(
            "Wait until this share of those who hear of it has the version (99% when it is not said).",
            valueName: "share"))
    var share: String?

    @Option(
        help: "What they must have done: sent, received (streams), fetched, active (clients that say who they are).")
    var stage: Stage?

    @Option(
        help: ArgumentHelp("How long to wait at most (default: a minute and the herd window).", valueName: "time"))
    var timeout: Span?

    @Option(help: ArgumentHelp("Fail when fewer clients, or streams, were there to hear of it.", valueName: "count"))
    var minClients = 0

    @Option(help: "What to do when the time is up: fail (exit 7), warn (exit 0), or rollback (and exit 7).")
    var onTimeout = OnTimeout.fail

    func validate() throws {
        if share == nil, stage != nil || timeout != nil || minClients != 0 || onTimeout != .fail {
            throw ValidationError("--stage, --timeout, --min-clients and --on-timeout are for --wait")
        }
        if minClients < 0 { throw ValidationError("--min-clients is 0 or more") }
        let number = share.flatMap { Double($0.hasSuffix("%") ? String($0.dropLast()) : $0) }
        if let share, number.map({ $0 > 0 && $0 <= (share.hasSuffix("%") ? 100 : 1) }) != true {
            throw ValidationError("--wait takes a share, for example 99% or 0.99")
        }
        if let timeout, timeout.duration > .seconds(3600) { throw ValidationError("--timeout is at most 1h") }
    }

    /// Of the request.
    var query: [(name: String, value: String)] {
        var query = [("target", share ?? "99%"), ("minClients", String(minClients))]
        if let stage { query.append(("stage", stage.rawValue)) }
        if let timeout { query.append(("timeout", "\(Int64(timeout.duration / .milliseconds(1)))ms")) }
        return query
    }
}
