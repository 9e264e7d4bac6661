import ArgumentParser
import Foundation
import StalecastDaemon
import StalecastWire

/// `stalecast doctor`: what the machine allows, and what stands in the daemon's way.
struct Doctor: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Say what this machine allows the daemon, and what to change for more.",
        discussion: """
            Looks at descriptors, the queue of new connections, connection tracking, memory, the clock, the disk, certificates, and the \
            names that sources and webhooks need. Where something needs you, the line below is the command. With a \
            running daemon its limits count, else those of this shell. The exit code is 1 when something needs you.

            Examples:
              stalecast doctor
              stalecast doctor --streams 500000
              stalecast doctor --config /etc/stalecast/stalecast.yaml --json
            """)

    @Option(
        help: ArgumentHelp("The daemon's configuration (default: only the environment).", valueName: "file"),
        completion: .file())
    var config: String?

    @Option(help: "Streams that should be possible (default: edge.maxConnections, else 10000).")
    var streams: Int?

    @OptionGroup var data: DataOptions
    @OptionGroup var outputOptions: OutputOptions

    func run() async throws {
        var configuration: Configuration
        do {
            configuration = try ConfigurationLoader.load(path: config, environment: ProcessInfo.processInfo.environment)
        } catch {
            throw CommandFailure(
                .misconfigured, "the configuration has problems", problems: error.problems.map(\.description))
        }
        // What the configuration says holds unless the command line names a directory.
        if let path = data.path { configuration.data = path }
        // Without a daemon this shell's limits are all there is to say.
        let endpoints = try? data.running.endpoints()
        let process = endpoints.flatMap { $0.isRunning ? $0.process : nil }
        let check = SystemCheck(configuration, wanted: streams, process: process)
        let findings = check.findings + check.certificates + check.lookups
        try report(findings)
        if findings.contains(where: { $0.command != nil }) { throw ExitCode(ExitStatus.refused.rawValue) }
    }

    private func report(_ findings: [SystemCheck.Finding]) throws {
        let output = outputOptions.output
        if output.isJSON {
            return try output.json([
                "findings": .array(
                    findings.map { finding in
                        var object: JSONObject = [
                            "subject": .string(finding.subject), "isGood": .bool(finding.command == nil),
                            "sentence": .string(finding.sentence),
                        ]
                        if let command = finding.command { object["command"] = .string(command) }
                        return .object(object)
                    })
            ])
        }
        for finding in findings {
            let mark = finding.command == nil ? output.palette.green("ok") : output.palette.red("!!")
            try output.line("\(mark)  \(finding.sentence.printable)")
            if let command = finding.command { try output.line("      \(command.printable)") }
        }
    }
}
