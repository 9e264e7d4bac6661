import ArgumentParser
import Foundation
import StalecastDaemon
import StalecastWire

/// `stalecast token …`: the control token of a data directory.
struct Token: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Replace the control token.",
        discussion: """
            Examples:
              stalecast token rotate
            """, subcommands: [Token.Rotate.self])
}

extension Token {
    /// `stalecast token rotate`: a new token; the old one is refused from then on.
    struct Rotate: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "rotate",
            abstract: "Make a new control token; the old one no longer opens anything.",
            discussion: """
                Writes <data>/control.token anew and lets a running daemon take it over; no stream is dropped. Run it as the \
                user that runs the daemon. Where `control.tokenFile` is set, write that file anew and send SIGHUP instead.

                Examples:
                  stalecast token rotate
                  sudo -u stalecast stalecast token rotate --data /var/lib/stalecast
                """)

        @Flag(name: .shortAndLong, help: "Make it without the question that a terminal is asked.")
        var yes = false

        @OptionGroup var data: DataOptions
        @OptionGroup var outputOptions: OutputOptions

        func run() async throws {
            let directory = data.directory
            if Question.canBeAsked, !yes, !outputOptions.json {
                try Question("Whoever holds the token in \(directory.tokenFile) is refused then. Make a new one?")
                    .agree()
            }
            do {
                try TokenFile.rotate(directory: directory.path)
            } catch {
                throw CommandFailure(.refused, "no new token: \(error)")
            }
            // Without a daemon there is nobody to tell.
            guard let endpoints = try? directory.endpoints(), endpoints.isRunning, let process = endpoints.process
            else {
                return try say(directory.tokenFile, nil)
            }
            guard kill(process, SIGHUP) == 0 else {
                throw CommandFailure(
                    .refused,
                    "\(directory.tokenFile) holds a new token, but process \(process) cannot be told: "
                        + "\(String(cString: strerror(errno))). Send it SIGHUP, or restart it.")
            }
            try say(directory.tokenFile, process)
        }

        /// - Parameter process: of the daemon that takes it now; nil without one.
        private func say(_ file: String, _ process: Int32?) throws(CommandFailure) {
            let output = outputOptions.output
            if output.isJSON {
                return try output.json(["tokenFile": .string(file), "pid": process.map { .int($0) } ?? .null])
            }
            let taker = process.map { "process \($0) takes it now" } ?? "the next start takes it"
            try output.line("\(file) holds a new token; \(taker)")
        }
    }
}
