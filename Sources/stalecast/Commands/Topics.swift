import ArgumentParser
import StalecastWire

/// `stalecast topics`: what can be subscribed to, and who does.
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
    @OptionGroup var outputOptions: OutputOptions

    func run() async throws {
        let projectID = try project.id()
        let answer = try await client().send("GET", "/v1/projects/\(projectID)/topics").json()
        let output = output
        try output.show(answer, TopicsReading(answer.items("topics")).lines(output.palette))
    }
}
