import ArgumentParser
package import StalecastWire

struct Topics: AsyncParsableCommand, ControlOptions {
    static let configuration = CommandConfiguration(
        commandName: "topics",
        abstract: "List the topics of a project with their subscribers.",
        discussion: """
            Examples:
              stalecast topics
              stalecast topics --json | jq -r '.topics[].name'
            """)

    @OptionGroup var project: ProjectOptions

    @OptionGroup var connection: ConnectionOptions

    func run() async throws {
        let projectID = try project.id()
        let answer = try await client().send("GET", "/v1/projects/\(projectID)/topics").json()
        try output.show(answer, TopicsReading(answer.items("topics")).lines(output.palette))
    }
}

/// Topics as `topics` and `status` answer with them:
/// `{"name","scopes","keys","subscribers":{"sse","poll","otherNodes"?}}`, a scope either `demo/firebase` or
/// `{"project","namespace"}`.
package struct TopicsReading {
    private let topics: [JSONValue]

    package init(_ topics: [JSONValue]) { self.topics = topics }

    package func lines(_ palette: Palette, width: Int? = TerminalSize.forTables) -> [String] {
        let isCluster = topics.contains { $0["subscribers"]?["otherNodes"] != nil }
        func count(_ kind: String) -> TextTable.Column.Cell { { String($0["subscribers"]?[kind]?.int64 ?? 0) } }
        let elsewhere: [TextTable.Column] = isCluster ? [.right("OTHER NODES", count("otherNodes"))] : []
        let counts: [TextTable.Column] = [.right("STREAMS", count("sse")), .right("POLLS", count("poll"))] + elsewhere
        let others: [TextTable.Column] = [
            .extra("SCOPES") { $0.items("scopes").map(Self.scope).joined(separator: ", ") },
            .extra("KEYS") { $0.words("keys").isEmpty ? "all" : $0.words("keys").joined(separator: ", ") },
        ]
        let table = TextTable([.left("TOPIC") { $0.word("name") }] + counts + others, of: topics)
        return table.lines(palette, width: width)
    }

    static func scope(_ value: JSONValue) -> String {
        value.string ?? "\(value.word("project"))/\(value.word("namespace"))"
    }
}
