import ArgumentParser
import Foundation
import StalecastWire

/// `stalecast messages`: who sent what to whom.
struct Messages: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
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
    @OptionGroup var outputOptions: OutputOptions

    func validate() throws {
        if !(1...300).contains(limit) { throw ValidationError("--limit is 1 to 300") }
    }

    func run() async throws {
        let projectID = try project.id()
        let answer = try await connection.controlClient().send(
            "GET", "/v1/projects/\(projectID)/messages", query: [URLQueryItem(name: "pageSize", value: String(limit))]
        ).json()
        let output = outputOptions.output
        if output.isJSON { return try output.json(answer) }
        let messages = answer["messages"]?.array ?? []
        if messages.isEmpty { return output.remark("nobody has sent a message yet; try `stalecast send PUSH_RC A=1`") }
        var table = TextTable(
            .whole("TIME"), .right("AGE"), .left("TO"), .left("SENDER"), .extra("DATA"), .extra("NAME"))
        for message in messages {
            let time = message["time"]?.string ?? ""
            table.add(
                clockTime(time), age(time), message["target"]?.string ?? "?", ProposalReport.name(message["sender"]),
                (message["keys"]?.array ?? []).compactMap(\.string).joined(separator: ","),
                message["name"]?.string ?? "")
        }
        for line in table.lines(output.palette) { try output.line(line) }
    }
}
