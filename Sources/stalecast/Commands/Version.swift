import ArgumentParser
import StalecastDaemon
import StalecastWire

/// `stalecast version`.
struct Version: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Print the version of this binary.",
        discussion: """
            Examples:
              stalecast version
              stalecast --version
            """)

    @OptionGroup var outputOptions: OutputOptions

    func run() async throws {
        let output = outputOptions.output
        if output.isJSON { return try output.json(["version": .string(DaemonVersion.text)]) }
        try output.line(DaemonVersion.text)
    }
}
