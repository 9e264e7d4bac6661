import ArgumentParser
import Foundation
import StalecastDaemon

/// The one binary: the daemon (`serve`) and everything people and scripts do with it.
@main
struct Stalecast: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stalecast",
        abstract: "Tells every client of a remote configuration at once that what it holds is out of date.",
        discussion: """
            First steps:
              stalecast serve
              stalecast watch
              stalecast publish samples/templates/demo.json
              stalecast rollback 1

            The client commands find address and token of the daemon in its data directory (--data, default \
            $STALECAST_DATA, else ./stalecast-data), or take them from --control URL --token-file FILE and --edge URL.

            Exit codes:
            \(ExitStatus.helpTable)
            """,
        version: DaemonVersion.text,
        subcommands: [
            Serve.self, Publish.self, Rollback.self, Versions.self, Get.self, Diff.self, Evaluate.self, Watch.self,
            Send.self, Topics.self, Webhooks.self, Sources.self, Status.self, Load.self, Backup.self, Restore.self,
            CheckConfig.self, Version.self,
        ])

    /// Parses, runs, and ends the process with one of ``ExitStatus``.
    static func main() async {
        keepLoopbackOffProxies()
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

    /// The HTTP library takes a proxy from the environment, also for this very machine; there the token would go astray.
    /// Done before any other thread exists, as `setenv` demands.
    private static func keepLoopbackOffProxies() {
        let environment = ProcessInfo.processInfo.environment
        let given = environment["no_proxy"] ?? environment["NO_PROXY"] ?? ""
        guard given != "*" else { return }
        setenv("no_proxy", (given.isEmpty ? "" : given + ",") + "localhost,127.0.0.1,::1", 1)
    }

    /// Help and version texts leave with 0, wrong use with 2 (the parser's own code would be 64), the rest with 1.
    private static func exitForParserError(_ error: any Error) -> Never {
        guard exitCode(for: error) == .validationFailure else { exit(withError: error) }
        FileHandle.standardError.write(Data((fullMessage(for: error) + "\n").utf8))
        Foundation.exit(ExitStatus.usage.rawValue)
    }
}
