import ArgumentParser
import StalecastDaemon
import StalecastWire

extension Sources {
    struct Check: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "check",
            abstract: "Try every source of a configuration once, and explain what it shows.",
            discussion: """
                Needs no daemon and publishes nothing. The exit code is 1 when one of the sources cannot be used, 78 when \
                the configuration has problems.

                Examples:
                  stalecast sources check --config /etc/stalecast.yaml
                  stalecast sources check --config stalecast.yaml --json
                """)

        @Option(help: .value("file", "The configuration file."), completion: .file())
        var config: String

        @OptionGroup var outputOptions: OutputOptions

        func run() async throws {
            let configuration = try Configuration.loaded(config)
            let check: SourceCheck
            do { check = try SourceCheck(configuration) } catch {
                throw CommandFailure(.refused, error.description)
            }
            let findings = await check.run()
            try write(findings)
            if findings.contains(where: { !$0.isUsable }) { throw ExitCode(ExitStatus.refused.rawValue) }
        }

        private func write(_ findings: [SourceCheck.Finding]) throws(CommandFailure) {
            let output = outputOptions.output
            if output.isJSON { return try output.json(["sources": .array(findings.map(\.json))]) }
            if findings.isEmpty { return output.remark("\(config) has no source that could be tried") }
            for finding in findings {
                let state = finding.isUsable ? output.palette.green("ok") : output.palette.red("failed")
                try output.line(
                    "\("\(finding.scope)".printable)  \(finding.kind)  \(finding.place.printable)  \(state)")
                for sentence in finding.sentences { try output.line("  \(sentence.printable)") }
            }
        }
    }
}
