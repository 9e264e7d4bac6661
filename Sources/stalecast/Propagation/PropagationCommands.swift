import ArgumentParser
import Foundation
import StalecastWire

/// `stalecast propagation`: who has which version.
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

/// `stalecast propagation status`.
struct PropagationStatus: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "How far a version came, with the curve of its way.",
        discussion: """
            Examples:
              stalecast propagation status
              stalecast propagation status 1 --json | jq .clients
            """)

    @Argument(help: "The version (default: the newest).", completion: .versionNumbers)
    var version: Int64?

    @OptionGroup var scopeOptions: ScopeOptions
    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var outputOptions: OutputOptions

    func run() async throws {
        let api = TemplateAPI(client: try connection.controlClient(), scope: try scopeOptions.scope())
        let answer = try await api.read("/propagation", version: version)
        let output = outputOptions.output
        if output.isJSON { return try output.json(answer) }
        if answer["versionNumber"]?.int64 == 0 {
            return output.remark("no version published yet; try `stalecast publish FILE`")
        }
        let width = TerminalSize.forTables ?? 100
        for line in PropagationReading(answer).lines(output.palette, scope: "\(api.scope)", width: width) {
            try output.line(line)
        }
    }
}

/// `stalecast propagation laggards`.
struct PropagationLaggards: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "laggards", abstract: "Which clients a version is still missing at.",
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

    @Option(help: "What they have not done.")
    var stage = Stage.fetched

    @Option(help: "Count them by a trait instead.")
    var groupBy: Trait?

    @Option(help: ArgumentHelp("Only the client of this id, whatever it has.", valueName: "id"))
    var client: String?

    @Option(help: "How many to list, 1 to 1000.")
    var limit = 100

    @OptionGroup var scopeOptions: ScopeOptions
    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var outputOptions: OutputOptions

    func validate() throws {
        guard (1...1000).contains(limit) else { throw ValidationError("--limit is 1 to 1000") }
    }

    func run() async throws {
        let api = TemplateAPI(client: try connection.controlClient(), scope: try scopeOptions.scope())
        var query = [
            URLQueryItem(name: "stage", value: stage.rawValue), URLQueryItem(name: "pageSize", value: String(limit)),
        ]
        if let groupBy { query.append(URLQueryItem(name: "groupBy", value: groupBy.rawValue)) }
        if let client { query.append(URLQueryItem(name: "client", value: client)) }
        let answer = try await api.read("/propagation:laggards", version: version, query)
        let output = outputOptions.output
        if output.isJSON { return try output.json(answer) }
        let total = answer["total"]?.int64 ?? 0
        if total == 0 { return output.remark(client == nil ? "nobody is behind" : "nobody of that id is known") }
        let table = groupBy == nil ? Self.clients(answer) : Self.groups(answer, groupBy?.rawValue.uppercased() ?? "")
        for line in table.lines(output.palette) { try output.line(line) }
        let shown = Int64(answer["laggards"]?.array?.count ?? Int(total))
        if shown < total { output.remark("\(PublishCounts.grouped(total - shown)) more; --limit shows up to 1000") }
    }

    private static func clients(_ answer: JSONValue) -> TextTable {
        var table = TextTable(
            .id("CLIENT"), .right("HELD"), .right("RUNS"), .left("STATE"), .extra("SDK"), .extra("APP"),
            .whole("ADDRESS"), .extra("ERROR"))
        for row in answer["laggards"]?.array ?? [] {
            func text(_ name: String) -> String { row[name]?.string ?? "" }
            let state = text("state") + (row["live"]?.bool == true ? "" : ", gone")
            table.add(
                text("client").isEmpty ? "?" : text("client"), text("held").isEmpty ? "?" : text("held"),
                text("active").isEmpty ? "?" : text("active"), state, text("sdk"), text("app"), text("address"),
                text("error"))
        }
        return table
    }

    private static func groups(_ answer: JSONValue, _ title: String) -> TextTable {
        var table = TextTable(.left(title), .right("CLIENTS"))
        for group in answer["groups"]?.array ?? [] {
            let key = group["key"]?.string ?? ""
            table.add(key.isEmpty ? "(not said)" : key, PublishCounts.grouped(group["count"]?.int64 ?? 0))
        }
        return table
    }
}

/// `stalecast propagation list`.
struct PropagationList: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "How far the last versions came, newest first.",
        discussion: """
            Examples:
              stalecast propagation list
              stalecast propagation list --limit 5 --json
            """)

    @Option(help: "How many versions to list, 1 to 300.")
    var limit = 20

    @OptionGroup var scopeOptions: ScopeOptions
    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var outputOptions: OutputOptions

    func validate() throws {
        guard (1...300).contains(limit) else { throw ValidationError("--limit is 1 to 300") }
    }

    func run() async throws {
        let api = TemplateAPI(client: try connection.controlClient(), scope: try scopeOptions.scope())
        let query = [URLQueryItem(name: "pageSize", value: String(limit))]
        let answer = try await api.read("/propagation:list", version: nil, query)
        let output = outputOptions.output
        if output.isJSON { return try output.json(answer) }
        let rolloutStatuses = answer["propagations"]?.array ?? []
        if rolloutStatuses.isEmpty { return output.remark("no version published yet; try `stalecast publish FILE`") }
        var table = TextTable(
            .right("VERSION"), .right("AGE"), .left("STATE"), .right("STREAMS"), .right("SENT"), .right("CLIENTS"),
            .right("FETCHED"), .spare("LEFT"), .spare("ACTIVE"), .spare("T99"))
        for rolloutStatus in rolloutStatuses {
            func count(_ group: String, _ name: String) -> String {
                PublishCounts.grouped(rolloutStatus[group]?[name]?.int64 ?? 0)
            }
            let time = rolloutStatus["times"]?["fetched"]?["t99"].flatMap { $0.isNull ? nil : "\($0.text()) s" } ?? ""
            table.add(
                rolloutStatus["versionNumber"]?.string ?? "?", age(rolloutStatus["announceTime"]?.string ?? ""),
                (rolloutStatus["state"]?.string ?? "?") + (rolloutStatus["partial"]?.bool == true ? " (partial)" : ""),
                count("streams", "audience"), count("streams", "sent"), count("clients", "audience"),
                count("clients", "fetched"), count("clients", "left"), count("clients", "active"), time)
        }
        for line in table.lines(output.palette) { try output.line(line) }
    }
}
