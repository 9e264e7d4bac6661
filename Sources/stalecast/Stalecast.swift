package import ArgumentParser
import Foundation
import StalecastDaemon
import StalecastTemplate
import StalecastWire

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
            ./stalecast-data, else the installed service's), or take them from --control URL --token-file FILE and \
            --edge URL, from STALECAST_CONTROL, _EDGE, _TOKEN, _TOKEN_FILE, _CA_FILE, _DATA, _PROJECT, _NAMESPACE, \
            _USER, or from a context (`stalecast context`): flags before variables before the context in use.

            Exit codes:
            \(ExitStatus.helpTable)
            """,
        version: DaemonVersion.text,
        groupedSubcommands: [
            CommandGroup(
                name: "Publish",
                subcommands: [
                    Publish.self, Rollback.self, ReleaseCommand.self, SetValues.self, UnsetValues.self, Edit.self,
                    Get.self, Diff.self, Versions.self, Proposals.self, Evaluate.self, Import.self,
                ]),
            CommandGroup(
                name: "Watch",
                subcommands: [Watch.self, PropagationCommand.self, Topics.self, Send.self, Messages.self]),
            CommandGroup(name: "Webhooks", subcommands: [Webhooks.self]),
            CommandGroup(name: "Sources", subcommands: [Sources.self]),
            CommandGroup(
                name: "Operate",
                subcommands: [
                    Serve.self, Emulator.self, Status.self, Top.self, Console.self, Backup.self, Restore.self,
                    NewEpoch.self,
                    Migrate.self,
                    Token.self, Keys.self,
                    Audit.self, Logs.self,
                    ClusterCommand.self, TLS.self, CheckConfig.self, Doctor.self,
                ]),
            CommandGroup(name: "Measure", subcommands: [Load.self]),
            CommandGroup(name: "Shell", subcommands: [Contexts.self, Completion.self, Version.self]),
        ])

    package init() {}

    /// Parses, runs, and ends the process with one of ``ExitStatus``.
    package static func main() async {
        do {
            try refuseVersionNumber(Array(CommandLine.arguments.dropFirst()))
            let command = try parseAsRoot(WaitOptions.spelledOut(Array(CommandLine.arguments.dropFirst())))
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

    /// `--version` prints the program's version, also behind a command's name.
    ///
    /// - Throws: ``CommandFailure`` for `get --version 3`, which means another version.
    private static func refuseVersionNumber(_ words: [String]) throws(CommandFailure) {
        let words = words.prefix { $0 != "--" }
        guard let place = words.dropFirst().firstIndex(where: { $0 == "--version" || $0.hasPrefix("--version=") })
        else { return }
        let next =
            words[place].hasPrefix("--version=") ? String(words[place].dropFirst(10)) : words[(place + 1)...].first
        guard let number = next.flatMap(Int64.init) else { return }
        throw CommandFailure(
            .usage, "--version prints the version of the program, not of a template",
            advice: words.first == "get"
                ? "`stalecast get --version-number \(number)` prints version \(number) of the template."
                : "Commands about one version take its number as a word of its own, such as `stalecast rollback \(number)`."
        )
    }

    /// The first word of the command line that is no command where one must stand, and the commands there.
    package static func wrongCommand(_ words: [String]) -> (word: String, path: [String], known: [String])? {
        var (command, path) = (Stalecast.self as any ParsableCommand.Type, ["stalecast"])
        for word in words {
            let known = command.configuration.subcommands
            guard !known.isEmpty, !word.hasPrefix("-") else { return nil }
            guard let next = known.first(where: { $0._commandName == word }) else {
                let names = known.map { $0._commandName }
                // A word may be an argument of the default.
                let mayBeArgument =
                    command.configuration.defaultSubcommand != nil && nearestName(to: word, of: names) == nil
                return word == "help" || mayBeArgument ? nil : (word, path, names)
            }
            path.append(word)
            command = next
        }
        return nil
    }

    /// Help and version texts leave with 0, wrong use with 2 (the parser's own code would be 64), the rest with 1.
    private static func exitForParserError(_ error: any Error) -> Never {
        guard exitCode(for: error) == .validationFailure else { exit(withError: error) }
        if let failure = wrongUse ?? (ErrorReport.isJSONAsked ? CommandFailure(.usage, message(for: error)) : nil) {
            ErrorReport(failure).write()
        } else {
            StandardError.write(fullMessage(for: error) + "\n")
        }
        Foundation.exit(ExitStatus.usage.rawValue)
    }

    /// Wrong use that the parser words badly; nil for all other.
    private static var wrongUse: CommandFailure? {
        if let (word, path, known) = wrongCommand(Array(CommandLine.arguments.dropFirst())) {
            let place = path.joined(separator: " ")
            let near = nearestName(to: word, of: known).map { "Did you mean `\(place) \($0)`?" }
            return CommandFailure(
                .usage, "there is no command \"\((path.dropFirst() + [word]).joined(separator: " "))\"",
                advice: near ?? "`\(place) --help` lists what there is.")
        }
        return WaitOptions.taken(from: CommandLine.arguments).map { word in
            CommandFailure(
                .usage, "--wait takes \(word) for its share", advice: "Write `\(word) --wait`, or `--wait=99%`.")
        }
    }
}
