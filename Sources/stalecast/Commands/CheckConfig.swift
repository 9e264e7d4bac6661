import ArgumentParser
import Foundation
import StalecastDaemon
import StalecastWire

/// `stalecast check-config`: reads the configuration as `serve` would, and does nothing else.
struct CheckConfig: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check-config",
        abstract: "Check a configuration file and the environment, without starting anything.",
        discussion: """
            All problems are reported together, each with its line; the exit code is then 78, as with `serve`. \
            Key sets in files (auth.issuers) are read last, and must be there; `serve` waits for them.

            Examples:
              stalecast check-config --config /etc/stalecast.yaml
              STALECAST_EDGE_LISTEN=0.0.0.0:8080 stalecast check-config
              stalecast check-config --explain > stalecast.yaml
            """)

    @Option(
        help: ArgumentHelp("The file (default: none, only the environment is checked).", valueName: "file"),
        completion: .file())
    var config: String?

    @Flag(help: "Print a file with every key, its meaning, unit and default; check nothing.")
    var explain = false

    @OptionGroup var outputOptions: OutputOptions

    func run() async throws {
        let output = outputOptions.output
        if explain { return try output.write(Array(ConfigurationReference.text.utf8)) }
        let subject = config == "-" ? "standard input" : config ?? "the environment"
        let problems = problems()
        guard problems.isEmpty else {
            throw CommandFailure(
                .misconfigured, "\(subject) is no valid configuration", problems: problems,
                advice: "`stalecast check-config --explain` prints every key with its meaning and default.")
        }
        if output.isJSON { return try output.json(["configuration": .string(subject), "isValid": .bool(true)]) }
        try output.line("\(subject == "-" ? "standard input" : subject) is a valid configuration")
    }

    private func problems() -> [String] {
        do {
            let environment = ProcessInfo.processInfo.environment
            return try ConfigurationLoader.load(path: config, environment: environment).keySetProblems
        } catch {
            return error.problems.map(\.description)
        }
    }
}
