import ArgumentParser
import Foundation
import StalecastDaemon
import StalecastWire

struct Token: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "token",
        abstract: "Replace the control token.",
        discussion: """
            Examples:
              stalecast token rotate
            """, subcommands: [Token.Rotate.self])
}

extension Token {
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

        @OptionGroup var agreement: YesOption
        @OptionGroup var data: DataOptions
        @OptionGroup var outputOptions: OutputOptions

        func run() async throws {
            let directory = data.directory
            let question = "Callers with the token in \(directory.tokenFile) are refused then. Make a new one?"
            try agreement.ask(question, outputOptions.output)
            do {
                try TokenFile.rotate(directory: directory.path)
            } catch {
                throw CommandFailure(
                    .refused, "no new token: \(error)",
                    advice: "--data DIR names the daemon's data directory; run as the user that runs the daemon.")
            }
            // Without a daemon there is no process to tell.
            guard let endpoints = try? directory.endpoints(), endpoints.isRunning, let process = endpoints.process
            else { return try say(directory.tokenFile, nil) }
            guard kill(process, SIGHUP) == 0 else {
                throw CommandFailure(
                    .refused,
                    "\(directory.tokenFile) holds a new token, but process \(process) cannot be told: "
                        + "\(String(cString: strerror(errno))). Send it SIGHUP, or restart it.")
            }
            let isTaken = await isTaken(directory, endpoints.control)
            if isTaken == false {
                throw CommandFailure(
                    .refused, "\(directory.tokenFile) holds a new token, but process \(process) still refuses it",
                    advice:
                        "The old token stays valid until the daemon reads its configuration again. Its log says why "
                        + "it did not (\"configuration not reloaded\"); repair that and send it SIGHUP. Where "
                        + "`control.tokenFile` is set, write that file instead.")
            }
            try say(directory.tokenFile, process, isTaken: isTaken != nil)
        }

        /// Whether Control accepts the new token; nil where it cannot be asked, for example behind a private authority.
        private func isTaken(_ directory: DataDirectory, _ url: String) async -> Bool? {
            guard let address = try? ServerAddress(url, from: directory.endpointsFile),
                let token = try? ControlToken(readFrom: directory.tokenFile)  // unreadable: not asked
            else { return nil }  // The caller says that it did not ask.
            let client = ControlClient(address: address, token: token)
            // A reload takes some milliseconds; a busy machine takes longer.
            for _ in 0..<25 {
                do {
                    _ = try await client.send("GET", "/status")
                    return true
                } catch {
                    guard error.status == .tokenRefused else { return nil }
                    try? await Task.sleep(for: .milliseconds(200))  // cancelled: asks once more at once
                }
            }
            return false
        }

        /// - Parameters:
        ///   - process: the running daemon's; nil without one.
        ///   - isTaken: whether the daemon was seen to accept the token.
        private func say(_ file: String, _ process: Int32?, isTaken: Bool = false) throws(CommandFailure) {
            let taker = process.map {
                isTaken ? "process \($0) takes it now" : "process \($0) was told, and could not be asked"
            }
            try outputOptions.output.show(
                ["tokenFile": .string(file), "pid": process.map { .int($0) } ?? .null, "isTaken": .bool(isTaken)],
                ["\(file) holds a new token; \(taker ?? "the next start takes it")"])
        }
    }
}
