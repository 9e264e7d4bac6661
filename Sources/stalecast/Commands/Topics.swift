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

    @OptionGroup var project: ProjectOptions

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var outputOptions: OutputOptions

    func run() async throws {
        let projectID = try project.id()
        let answer = try await connection.controlClient().send("GET", "/v1/projects/\(projectID)/topics").json()
        let output = outputOptions.output
        if output.isJSON { return try output.json(answer) }
        for line in TopicsReading(answer["topics"]?.array ?? []).lines(output.palette) { try output.line(line) }
    }
}
