import ArgumentParser
import StalecastWire

struct PropagationCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "propagation",
        abstract: "See who has a version: how far it came, when, and who is behind.",
        discussion: """
            Streams are counted all; clients are counted that say who they are: Firebase's SDKs and ours do, others with \
            client= in the URL of their stream.

            Examples:
              stalecast propagation
              stalecast propagation laggards
              stalecast propagation list
            """,
        subcommands: [PropagationStatus.self, PropagationLaggards.self, PropagationList.self],
        defaultSubcommand: PropagationStatus.self, aliases: ["rollout"])
}

struct PropagationStatus: AsyncParsableCommand, ScopedControlOptions {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show how far a version has spread, and how that grew over time.",
        discussion: """
            Examples:
              stalecast propagation status
              stalecast propagation status --follow
              stalecast propagation status 1 --json | jq .clients
            """)

    @Argument(help: "The version (default: the newest).", completion: .versionNumbers)
    var version: Int64?

    @Flag(
        name: .shortAndLong,
        help: "Show the newest version's progress as it goes, and that of newer ones, until Ctrl-C.")
    var follow = false

    @OptionGroup var scoped: ScopedOptions

    private static let nothing = "no version published yet"

    func validate() throws {
        if follow, version != nil { throw ValidationError("--follow goes on with newer ones: leave the number out") }
    }

    func run() async throws {
        let api = try api()
        if follow { return try await show(api) }
        let answer = try await api.read("/propagation", version: version)
        if output.isJSON { return try output.json(answer) }
        if answer["versionNumber"]?.int64 == 0 {
            return output.remark("\(Self.nothing); try `stalecast publish FILE`")
        }
        try output.lines(page(answer, api.scope))
    }

    private func page(_ answer: JSONValue, _ scope: Scope) -> [String] {
        PropagationReading(answer).lines(output.palette, scope: "\(scope)", width: TerminalSize.forTables ?? 100)
    }

    /// Draws each report over the one before; without a terminal, and with --json, it is a line.
    private func show(_ api: TemplateAPI) async throws {
        let isScreen = !output.isJSON && TerminalSize.canBeDrawnOn
        if isScreen { try Screen.open(output) }
        defer { if isScreen { Screen.close() } }
        var last = ""
        _ = try await PropagationWait.read(api, ["follow": "true"], isEndless: true) { report in
            if output.isJSON { return try output.jsonText(report.text()) }
            let reading = PropagationReading(report)
            let isNone = reading.version == 0
            if isScreen { return try Screen.draw(isNone ? [Self.nothing] : page(report, api.scope), output) }
            let line = isNone ? Self.nothing : "version \(reading.version), \(report.word("state")): \(reading.line)"
            if line != last { try output.line(line) }
            last = line
        }
    }
}

struct PropagationLaggards: AsyncParsableCommand, ScopedControlOptions {
    static let configuration = CommandConfiguration(
        commandName: "laggards", abstract: "List the clients that do not have a version yet.",
        discussion: """
            Only clients of the version's audience: those that were connected when it was announced. Ids, addresses, apps \
            and SDKs are there unless the daemon runs with clients.names: false.

            Examples:
              stalecast propagation laggards
              stalecast propagation laggards 1 --stage active --limit 20
              stalecast propagation laggards --group-by sdk
            """)

    enum Stage: String, ExpressibleByArgument, CaseIterable { case fetched, active }

    enum Trait: String, ExpressibleByArgument, CaseIterable { case sdk, app, held, address }

    @Argument(help: "The version (default: the newest).", completion: .versionNumbers)
    var version: Int64?

    @Option(help: "Stage that the listed clients have not reached.")
    var stage = Stage.fetched

    @Option(help: "Count the clients by a trait instead of listing them.")
    var groupBy: Trait?

    @Option(help: .value("id", "Only the client of this id, whatever it has."))
    var client: String?

    @Option(help: "How many to list, 1 to 1000.")
    var limit = 100

    @OptionGroup var scoped: ScopedOptions

    func validate() throws {
        guard (1...1000).contains(limit) else { throw ValidationError("--limit is 1 to 1000") }
    }

    func run() async throws {
        let api = try api()
        let query: RequestQuery = [
            "stage": stage.rawValue, "pageSize": String(limit), "groupBy": groupBy?.rawValue, "client": client,
        ]
        let answer = try await api.read("/propagation:laggards", version: version, query)
        if output.isJSON { return try output.json(answer) }
        let total = answer["total"]?.int64 ?? 0
        if total == 0 { return output.remark(client == nil ? "no client is behind" : "no client of that id is known") }
        let table = groupBy.map { Self.groups(answer, $0.rawValue.uppercased()) } ?? Self.clients(answer)
        try output.lines(table.lines(output.palette))
        let shown = Int64(answer["laggards"]?.array?.count ?? Int(total))
        if shown < total { output.remark("\(PublishCounts.grouped(total - shown)) more; --limit shows up to 1000") }
    }

    private static func clients(_ answer: JSONValue) -> TextTable {
        func text(_ name: String) -> TextTable.Column.Cell { { $0.word(name, "") } }
        func known(_ name: String) -> TextTable.Column.Cell { { $0.word(name, "").isEmpty ? "?" : $0.word(name) } }
        return TextTable(
            [
                .id("CLIENT", known("client")), .right("HELD", known("held")), .right("RUNS", known("active")),
                .left("STATE") { $0.word("state", "") + ($0["live"]?.bool == true ? "" : ", gone") },
                .extra("SDK", text("sdk")), .extra("APP", text("app")), .whole("ADDRESS", text("address")),
                .extra("ERROR", text("error")),
            ], of: answer.items("laggards"))
    }

    private static func groups(_ answer: JSONValue, _ title: String) -> TextTable {
        TextTable(
            [
                .left(title) { $0.word("key", "").isEmpty ? "(not said)" : $0.word("key") },
                .right("CLIENTS") { PublishCounts.grouped($0["count"]?.int64 ?? 0) },
            ], of: answer.items("groups"))
    }
}

struct PropagationList: AsyncParsableCommand, ScopedControlOptions {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List how far the last versions have spread, newest first.",
        discussion: """
            Examples:
              stalecast propagation list
              stalecast propagation list --limit 5 --json
            """)

    @Option(help: "How many versions to list, 1 to 300.")
    var limit = 20

    @OptionGroup var scoped: ScopedOptions

    func validate() throws {
        guard (1...300).contains(limit) else { throw ValidationError("--limit is 1 to 300") }
    }

    func run() async throws {
        let api = try api()
        let answer = try await api.read("/propagation:list", ["pageSize": String(limit)])
        func count(_ group: String, _ name: String) -> TextTable.Column.Cell {
            { row in
                let (value, unknown) = (row[group]?[name]?.int64 ?? 0, row["clients"]?["unknown"]?.int64 ?? 0)
                // A row of a process that was killed: its clients were counted by no later process, and that is not 0.
                let isPartial = row["partial"]?.bool == true
                let hasNone = (row[group]?["audience"]?.int64 ?? 0) == 0
                let isUnknown = isPartial && (group == "streams" || hasNone) || name == "fetched" && unknown > 0
                return isUnknown && value == 0 ? "unknown" : PublishCounts.grouped(value)
            }
        }
        try output.list(
            "propagations", answer.items("propagations"), in: answer,
            ifNone: "no version published yet; try `stalecast publish FILE`",
            .right("VERSION") { $0.word("versionNumber") }, .right("AGE") { age($0.word("announceTime", "")) },
            .left("STATE") {
                $0.word("state") + PropagationReading($0).stage + ($0["partial"]?.bool == true ? " (partial)" : "")
            },
            .right("STREAMS", count("streams", "audience")), .right("SENT", count("streams", "sent")),
            .right("CLIENTS", count("clients", "audience")), .right("FETCHED", count("clients", "fetched")),
            .right("LEFT", count("clients", "left")), .spare("ACTIVE", count("clients", "active")),
            .spare("T99") { $0["times"]?["fetched"]?["t99"].flatMap { $0.isNull ? nil : "\($0.text()) s" } ?? "" })
    }
}
