import ArgumentParser
import StalecastWire

struct Status: AsyncParsableCommand, ControlOptions {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show how the daemon is: versions, topics, streams, store.",
        discussion: """
            With --json the whole of /status is printed. The exit code is 0 when the daemon answers and is ready, \
            1 when it says that it is not.

            Examples:
              stalecast status
              stalecast status --json | jq .edge.streams
              stalecast status --quiet || echo 'not well'
            """)

    @Flag(help: "Print nothing; only the exit code tells. For health checks: needs no token, trusts any certificate.")
    var quiet = false

    @OptionGroup var connection: ConnectionOptions

    func run() async throws {
        if quiet {
            if try await connection.isReady() { return }
            throw ExitCode(ExitStatus.refused.rawValue)
        }
        let status = try await client().send("GET", "/status").json()
        try output.show(status, StatusReading(status).lines(output.palette))
        if status["ready"]?.bool == false { throw ExitCode(ExitStatus.refused.rawValue) }
    }
}
