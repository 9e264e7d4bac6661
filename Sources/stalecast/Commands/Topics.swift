import ArgumentParser
import StalecastWire

/// `stalecast topics`: what can be subscribed to, and who does.
struct Topics: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "List the topics of a project with their subscribers.",
        discussion: """
            Examples:
              stalecast topics
              stalecast topics --json | jq -r '.topics[].name'
            """)

    @Option(help: ArgumentHelp("Project, by id or number.", valueName: "id"), completion: .projects)
    var project = "demo"

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var outputOptions: OutputOptions

    func run() async throws {
        let projectID = try checked { () throws(InvalidName) -> ProjectID in try ProjectID(project) }
        let answer = try await connection.controlClient().send("GET", "/v1/projects/\(projectID)/topics").json()
        let output = outputOptions.output
        if output.isJSON { return try output.json(answer) }
        for line in TopicTable(answer["topics"]?.array ?? []).lines(output.palette) { try output.line(line) }
    }
}

/// Topics as `topics` and `status` answer with them: `{"name","scopes","keys","subscribers":{"sse","poll"}}`, a scope
/// either `demo/firebase` or `{"project","namespace"}`.
struct TopicTable {
    private let topics: [JSONValue]

    init(_ topics: [JSONValue]) { self.topics = topics }

    func lines(_ palette: Palette) -> [String] {
        var table = TextTable(.left("TOPIC"), .right("STREAMS"), .right("POLLS"), .left("SCOPES"), .left("KEYS"))
        for topic in topics {
            let subscribers = topic["subscribers"]
            let keys = (topic["keys"]?.array ?? []).compactMap(\.string)
            table.add(
                topic["name"]?.string ?? "?", count(subscribers?["sse"]), count(subscribers?["poll"]),
                (topic["scopes"]?.array ?? []).map(Self.scope).joined(separator: ", "),
                keys.isEmpty ? "all" : keys.joined(separator: ", "))
        }
        return table.lines(palette)
    }

    private func count(_ value: JSONValue?) -> String { String(value?.int64 ?? 0) }

    static func scope(_ value: JSONValue) -> String {
        value.string ?? "\(value["project"]?.string ?? "?")/\(value["namespace"]?.string ?? "?")"
    }
}
