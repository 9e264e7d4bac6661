import ArgumentParser
import StalecastWire

struct ReleaseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "release",
        abstract: "See and steer a version that is released in stages.",
        discussion: """
            `stalecast publish FILE --stages 1%,10%,100%` begins one: a share of the clients is told and gets the new \
            version, all others keep the version before, until the next stage. One release is open in a scope at a time.

            Examples:
              stalecast publish winter.json --stages 1%,10%,100% --wait
              stalecast release
              stalecast release pause --reason 'support calls'
              stalecast release rollback --reason 'crashes on start'
            """,
        subcommands: [
            ReleaseStatus.self, ReleaseList.self, ReleasePause.self, ReleaseResume.self, ReleasePromote.self,
            ReleaseRollback.self,
        ],
        defaultSubcommand: ReleaseStatus.self)
}

struct ReleaseStatus: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show the newest release: its stages, what comes next, who did what and why.",
        discussion: """
            --follow prints a line for each event until the release is over, also through a pause: exit code 0 when \
            all clients have the version, 9 when it was rolled back, 5 when another version took its place.

            Examples:
              stalecast release status
              stalecast release status --follow
              stalecast release status --json | jq -r .state
            """)

    @Flag(help: "Show each change until the release is over.")
    var follow = false

    @OptionGroup var options: ScopedOptions

    func run() async throws {
        let api = try options.api()
        let output = options.output
        let reading = try await api.release()
        guard follow else {
            try output.show(reading.document, reading.lines(output.palette, scope: "\(api.scope)"))
            return
        }
        let outcome = try await ReleaseWait(api: api, output: output, outlastsPauses: true).run(reading.version)
        if output.isJSON { try output.json(outcome.reading.document) }
        if let failure = outcome.failure { throw failure }
        if !output.isJSON { try output.line(outcome.sentence) }
    }
}

struct ReleaseList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the releases of a scope, newest first.",
        discussion: """
            The server keeps the newest 100.

            Examples:
              stalecast release list
              stalecast release list --limit 5 --json | jq -r '.releases[].state'
            """)

    @Option(help: "How many releases to list, 1 to 100.")
    var limit = 20

    @OptionGroup var options: ScopedOptions

    func validate() throws {
        guard (1...100).contains(limit) else { throw ValidationError("--limit is 1 to 100") }
    }

    func run() async throws {
        let api = try options.api()
        let page = try await api.read("/releases", ["pageSize": String(limit)])
        try options.output.list(
            "releases", page.items("releases"),
            ifNone: "no version of \(api.scope) was ever released in stages; see `stalecast publish --stages`",
            .right("VERSION") { $0.word("versionNumber") }, .right("OVER") { $0.word("baseVersionNumber") },
            .left("STATE") { $0.word("state").lowercased().replacing("_", with: " ") },
            .right("TOLD") { ReleaseReading($0).told },
            .whole("BEGAN") { $0.items("stages").first?.time("reachedAt") ?? "" },
            .left("LAST BY") { $0.items("events").last?.word("by", "") ?? "" },
            .extra("REASON") { $0.items("events").last?.word("reason", "") ?? "" })
    }
}

struct ReleasePause: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause", abstract: "Stop an open release at its stage.",
        discussion: """
            Clients keep their version until the release is resumed, promoted or rolled back.

            Example:
              stalecast release pause --reason 'support calls'
            """)

    @OptionGroup var change: ReleaseChange

    func run() async throws { try await change.run("pause") }
}

struct ReleaseResume: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume", abstract: "Let a paused release go on; the time of its stage begins anew.",
        discussion: """
            Example:
              stalecast release resume --reason 'it was the network'
            """)

    @OptionGroup var change: ReleaseChange

    func run() async throws { try await change.run("resume") }
}

struct ReleasePromote: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "promote", abstract: "Tell all clients of an open release now, or those of the next stage.",
        discussion: """
            After the last stage the bake time follows. On a terminal the command asks first, unless --yes is given.

            Examples:
              stalecast release promote
              stalecast release promote --to-next  # exactly one stage on
              stalecast release promote --reason 'fix for an outage' --yes
            """)

    @Flag(help: "Go on by one stage only, also from a pause; its time begins now.")
    var toNext = false

    @OptionGroup var agreement: YesOption
    @OptionGroup var change: ReleaseChange

    func run() async throws {
        let audience = toNext ? "the next stage" : "all clients"
        try await change.run(toNext ? "advance" : "promote", agreement) { "Tell \(audience) of version \($0) of" }
    }
}

struct ReleaseRollback: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rollback", abstract: "Take an open release back from the clients that were told.",
        discussion: """
            The content of the version before becomes a new version. Clients that were told of the release are told of \
            that one; for the others nothing changed. A terminal is asked, unless --yes.

            Examples:
              stalecast release rollback --reason 'crashes on start'
              stalecast release rollback --yes --json
            """)

    @OptionGroup var agreement: YesOption
    @OptionGroup var change: ReleaseChange

    func run() async throws {
        try await change.run("rollback", agreement) { "Take version \($0) back in" }
    }
}

struct ReleaseChange: ParsableArguments {
    @Option(help: .value("text", "Why, for the release's log and the audit log; at most 1024 bytes."))
    var reason: String?

    @OptionGroup var options: ScopedOptions

    /// - Parameter question: begins it, from the version's number; asked unless `agreement` has the answer.
    func run(
        _ verb: String, _ agreement: YesOption? = nil, question: (Int64) -> String = { _ in "" }
    ) async throws(CommandFailure) {
        let api = try options.api()
        let output = options.output
        if let agreement, agreement.asks(output) {
            let reading = try await api.release()
            output.remark(reading.sentence())
            // The server's refusal says it all when the release is over.
            if reading.isOpen {
                let place = options.connection.place(of: api.client)
                try Question("\(question(reading.version)) \(api.scope) \(place)?").agree()
            }
        }
        let reading = try await api.changeRelease(verb, reason: reason)
        try output.show(reading.document, [reading.sentence()])
    }
}

extension TemplateAPI {
    /// The newest release, open or not.
    func release() async throws(CommandFailure) -> ReleaseReading {
        ReleaseReading(try await read("/release"))
    }

    /// - Parameter verb: `pause`, `resume`, `advance`, `promote` or `rollback`.
    func changeRelease(_ verb: String, reason: String?) async throws(CommandFailure) -> ReleaseReading {
        let body: JSONValue = reason.map { ["reason": .string($0)] } ?? [:]
        return ReleaseReading(
            try await client.send("POST", path + "/release:\(verb)", body: body, changes: true).json())
    }
}
