package import ArgumentParser
import Foundation
import StalecastDaemon
import StalecastTemplate

/// The one binary: the daemon (`serve`) and everything people and scripts do with it.
@main
package struct Stalecast: AsyncParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "stalecast",
        abstract: "Tells every client of a remote configuration at once that what it holds is out of date.",
        discussion: """
            First steps:
              stalecast serve
              stalecast watch
              stalecast publish samples/templates/demo.json
              stalecast rollback 1

            The client commands find address and token of the daemon in its data directory (--data, default \
            $STALECAST_DATA, else ./stalecast-data, else the installed service's), or take them from --control URL \
            --token-file FILE and --edge URL.

            Exit codes:
            \(ExitStatus.helpTable)
            """,
        version: DaemonVersion.text,
        subcommands: [
            Serve.self, Publish.self, Rollback.self, Versions.self, Get.self, Diff.self, Evaluate.self, Watch.self,
            Send.self, Topics.self, Webhooks.self, Sources.self, Status.self, Load.self, Backup.self, Restore.self,
            Token.self, CheckConfig.self, Doctor.self, Completion.self, Version.self,
        ])

    package init() {}

    /// Parses, runs, and ends the process with one of ``ExitStatus``.
    package static func main() async {
        do {
            let command = try parseAsRoot()
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                var plain = command
                try plain.run()
            }
        } catch let failure as CommandFailure {
            ErrorReport(failure).write()
            Foundation.exit(failure.status.rawValue)
        } catch {
            exitForParserError(error)
        }
    }

    /// What the commands are called.
    private static var names: [String] { configuration.subcommands.map { $0._commandName } }

    /// Help and version texts leave with 0, wrong use with 2 (the parser's own code would be 64), the rest with 1.
    private static func exitForParserError(_ error: any Error) -> Never {
        guard exitCode(for: error) == .validationFailure else { exit(withError: error) }
        if let wrong = CommandLine.arguments.dropFirst().first, !wrong.hasPrefix("-"), !names.contains(wrong),
            let near = nearestName(to: wrong, of: names)
        {
            ErrorReport(
                CommandFailure(
                    .usage, "there is no command \"\(wrong)\"", advice: "Did you mean `stalecast \(near)`?")
            ).write()
        } else if ErrorReport.isJSONAsked {
            ErrorReport(CommandFailure(.usage, message(for: error))).write()
        } else {
            FileHandle.standardError.write(Data((fullMessage(for: error) + "\n").utf8))
        }
        Foundation.exit(ExitStatus.usage.rawValue)
    }
}
