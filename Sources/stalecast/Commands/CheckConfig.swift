import ArgumentParser
import Foundation
import StalecastDaemon
import StalecastWire

struct CheckConfig: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check-config",
        abstract: "Check a configuration file, the environment and flags of serve, without starting anything.",
        discussion: """
            All problems are reported together, each with its line; the exit code is then 78, as with `serve`. \
            Key sets and client secrets in files (auth.issuers) are read last, and must be there; `serve` waits for them. \
            An expired certificate is a problem, one that ends within 14 days a remark; `serve` starts with both, and \
            so judges --for-start.

            Examples:
              stalecast check-config --config /etc/stalecast.yaml
              stalecast check-config --config stalecast.yaml --edge 0.0.0.0:8443
              stalecast check-config --explain > stalecast.yaml
            """)

    @Flag(help: "Print a file with every key, its meaning, unit and default; check nothing.")
    var explain = false

    @Flag(help: "Accept what `serve` starts with and warns of: certificates that have expired, files that come later.")
    var forStart = false

    @OptionGroup(title: "Flags of serve, judged with the file") var options: ServeOptions

    @OptionGroup var outputOptions: OutputOptions

    func run() async throws {
        let output = outputOptions.output
        if explain { return try output.write(Array(ConfigurationReference.text.utf8)) }
        let config = options.config
        let subject = configurationName(config)
        let (problems, remarks) = judge()
        guard problems.isEmpty else {
            throw CommandFailure(invalidConfiguration: config, problems)
        }
        try output.show(
            [
                "configuration": .string(subject), "isValid": .bool(true),
                "remarks": .array(remarks.map(JSONValue.string)),
            ],
            ["\(subject) is a valid configuration"]
                + remarks.map { "\(output.palette.yellow("remark:")) \($0.printable)" })
        if config == nil, !output.isJSON {
            output.remark("no file was read; check one with `stalecast check-config --config \(Self.usualFile)`")
        }
    }

    /// The package's file where there is one, which the unit of systemd names and this command does not read by itself.
    private static var usualFile: String {
        let path = "/etc/stalecast/stalecast.yaml"
        return FileManager.default.fileExists(atPath: path) ? path : "FILE"
    }

    private func judge() -> (problems: [String], remarks: [String]) {
        do {
            let configuration = try ConfigurationLoader.load(
                path: options.config, environment: ProcessInfo.processInfo.environment, overrides: options.overrides)
            let faults = configuration.certificates(at: Int(Date().timeIntervalSince1970))
            let (invalid, ending) = (faults.filter(\.isInvalid), faults.filter { !$0.isInvalid })
            let late = configuration.issuerFileProblems + invalid.map(Self.text)
            return forStart ? ([], late + ending.map(Self.text)) : (late, ending.map(Self.text))
        } catch {
            return (error.problems.map(\.description), [])
        }
    }

    private static func text(_ fault: Configuration.CertificateFault) -> String { "\(fault.key): \(fault.sentence)" }
}

extension Configuration {
    /// The configuration of a file and the environment, or of the environment alone.
    static func loaded(
        _ path: String?, _ overrides: ConfigurationOverrides = ConfigurationOverrides()
    ) throws(CommandFailure) -> Configuration {
        do {
            return try ConfigurationLoader.load(
                path: path, environment: ProcessInfo.processInfo.environment, overrides: overrides)
        } catch {
            throw CommandFailure(invalidConfiguration: path, error.problems.map(\.description))
        }
    }
}

private func configurationName(_ path: String?) -> String {
    path == "-" ? "standard input" : path ?? "the environment"
}

extension CommandFailure {
    fileprivate init(invalidConfiguration path: String?, _ problems: [String]) {
        self.init(
            .misconfigured, "\(configurationName(path)) is not a valid configuration", problems: problems,
            advice: "`stalecast check-config --explain` prints every key with its meaning and default.")
    }
}
