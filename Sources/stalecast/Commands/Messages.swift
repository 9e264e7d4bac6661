import ArgumentParser
import StalecastWire

struct Messages: AsyncParsableCommand, ControlOptions {
    static let configuration = CommandConfiguration(
        commandName: "messages",
        abstract: "List the messages that were sent by hand, newest first, and by whom.",
        discussion: """
            Those of `stalecast send` and messages:send; the daemon keeps the last 300 of a project, without their values. \
            Who published a version is in `stalecast versions`.

            Examples:
              stalecast messages
              stalecast messages --limit 3 --json \\
                | jq -r '.messages[].sender.principal'
            """)

    @Option(help: "How many to list, 1 to 300.")
    var limit = 20

    @OptionGroup var project: ProjectOptions
    @OptionGroup var connection: ConnectionOptions

    func validate() throws {
        if !(1...300).contains(limit) { throw ValidationError("--limit is 1 to 300") }
    }

    func run() async throws {
        let projectID = try project.id()
        let answer = try await client().send(
            "GET", "/v1/projects/\(projectID)/messages", query: ["pageSize": String(limit)]
        ).json()
        try output.list(
            "messages", answer.items("messages"), in: answer,
            ifNone: "no message has been sent yet; try `stalecast send PUSH_RC A=1`",
            .whole("TIME") { $0.time("time") }, .right("AGE") { age($0.word("time", "")) },
            .left("TO") { $0.word("target") }, .left("SENDER") { ProposalReport.name($0["sender"]) },
            .extra("DATA") { $0.words("keys").joined(separator: ",") }, .extra("NAME") { $0.word("name", "") })
    }
}
