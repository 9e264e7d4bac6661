import ArgumentParser
import Foundation
import StalecastDaemon

/// `stalecast check-config`: reads the configuration as `serve` would, and does nothing else.
struct CheckConfig: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check-config",
        abstract: "Check a configuration file and the environment, without starting anything.",
        discussion: """
            All problems are reported together, each with its line.

            Examples:
              stalecast check-config --config /etc/stalecast.yaml
              STALECAST_EDGE_LISTEN=0.0.0.0:8080 stalecast check-config
              stalecast check-config --explain > stalecast.yaml
            """)

    @Option(help: ArgumentHelp("The file (default: none, only the environment is checked).", valueName: "file"))
    var config: String?

    @Flag(help: "Print a file with every key, its meaning, unit and default; check nothing.")
    var explain = false

    func run() async throws {
        let output = Output(isJSON: false, palette: Palette(isOn: false))
        if explain { return try output.write(Array(ConfigurationReference.text.utf8)) }
        let subject = config ?? "the environment"
        do {
            _ = try ConfigurationLoader.load(path: config, environment: ProcessInfo.processInfo.environment)
        } catch {
            let problems = error.problems.map(\.description)
            throw CommandFailure(
                .refused, "\(subject) is no valid configuration", problems: problems,
                advice: "`stalecast check-config --explain` prints every key with its meaning and default.")
        }
        try output.line("\(subject) is a valid configuration")
    }
}
