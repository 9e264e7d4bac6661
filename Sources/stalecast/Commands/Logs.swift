import ArgumentParser
import StalecastControl
import StalecastWire

struct Logs: AsyncParsableCommand, ScopedControlOptions {
    static let configuration = CommandConfiguration(
        commandName: "logs",
        abstract: "Show what happened and who did it, in words: to one scope, or to the whole daemon.",
        discussion: """
            Who changed what, and what sources and disabled webhooks did. Reads the audit log of a data directory, so run it as the \
            user that runs the daemon; `stalecast audit` shows the lines as they are. Where --control, --token-file, \
            $STALECAST_CONTROL or a context names a daemon, it is asked for its newest thousand lines instead, which takes the \
            control token or a key that may operate. Times are local, --utc makes them UTC. The daemon's own log is its standard \
            error: `journalctl -u stalecast`.

            Examples:
              stalecast logs
              stalecast logs --since 2h --scope shop/firebase
              stalecast logs --follow
              stalecast logs --follow --context prod
              stalecast logs --refused
              stalecast logs --json | jq -r .actor
            """)

    @Flag(name: .shortAndLong, help: "Go on with what is written from now on.")
    var follow = false

    @Flag(help: "Only what was refused or failed.")
    var refused = false

    @Option(help: .value("time", "Only from this time on: a time, or how long ago, such as 2h."))
    var since: PastTime?

    @Option(help: .value("project/namespace", "Only what concerns this scope; --project and --namespace say it too."))
    var scope: String?

    @OptionGroup var scoped: ScopedOptions

    func validate() throws {
        if scope != nil, scoped.scopeOptions.isNamed {
            throw ValidationError("--scope says it all: leave --project and --namespace out")
        }
    }

    func run() async throws {
        let scope = try named()
        let directory = connection.data.running().path
        // The directory that the installed service shares with its group has no audit log.
        let isShared = directory == DataDirectory.service.path
        if isShared || connection.isElsewhere || connection.tokenFile != nil { return try await showRemote(scope) }
        try await AuditReader.each(in: directory, follow: follow) { line throws(CommandFailure) in
            // `audit` shows what was cut off.
            if let object = JSONValue.ifValid(line)?.object { try show(object, scope) }
        }
    }

    private func named() throws(CommandFailure) -> Scope? {
        guard let scope else { return scoped.scopeOptions.isNamed ? try scoped.scope() : nil }
        let names = scope.split(separator: "/", maxSplits: 1).map(String.init)
        return Scope(
            project: try ProjectOptions.id(names.first),
            namespace: try checked(try Namespace(names.count > 1 ? names[1] : "firebase")))
    }

    /// Shows what Control has, oldest first, and what is new in it each second.
    private func showRemote(_ scope: Scope?) async throws {
        let client = try client()
        let query: RequestQuery = [
            "pageSize": "1000", "project": scope?.project.description, "namespace": scope?.namespace.description,
            "refused": refused ? "true" : nil,
        ]
        var last: JSONValue?
        var hasAnswered = false
        repeat {
            do throws(CommandFailure) {
                let entries = try await client.send("GET", "/v1/audit", query: query).json().items("entries")
                for entry in entries.prefix(while: { $0 != last }).reversed() { try show(entry.object ?? [:], scope) }
                last = entries.first ?? last
                hasAnswered = true
            } catch {
                // A daemon that was there restarts.
                guard hasAnswered, error.status == .unreachable else { throw error }
            }
            if follow { try await Task.sleep(for: .seconds(1)) }
        } while follow
    }

    private func show(_ line: JSONObject, _ scope: Scope?) throws(CommandFailure) {
        let entry = AuditSentence(line)
        if refused, !entry.isRefused { return }
        if let since, entry.time ?? since.time < since.time { return }
        if let scope, !entry.concerns(scope) { return }
        if output.isJSON { return try output.line(JSONValue.object(line).text()) }
        let time = entry.time.map(LocalClock.asked.date) ?? "?"
        let sentence = entry.sentence.printable
        try output.line(
            "\(output.palette.dim(time))  \(entry.actor.printable)  "
                + (entry.isRefused ? output.palette.red(sentence) : sentence))
    }
}
