import ArgumentParser
import Foundation
import StalecastDaemon

/// `stalecast token …`: the control token of a data directory.
struct Token: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Replace the control token.", subcommands: [TokenRotate.self])
}

/// `stalecast token rotate`: a new token; the old one is refused from then on.
struct TokenRotate: AsyncParsableCommand {
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

    @OptionGroup var data: DataOptions

    func run() async throws {
        let directory = data.directory
        let output = Output(isJSON: false, palette: Palette(isOn: false))
        do {
            try TokenFile.rotate(directory: directory.path)
        } catch {
            throw CommandFailure(.refused, "no new token: \(error)")
        }
        // Without a daemon there is nobody to tell.
        guard let endpoints = try? directory.endpoints(), endpoints.isRunning, let process = endpoints.process else {
            return try output.line("\(directory.tokenFile) holds a new token; the next start takes it")
        }
        guard kill(process, SIGHUP) == 0 else {
            throw CommandFailure(
                .refused,
                "\(directory.tokenFile) holds a new token, but process \(process) cannot be told: "
                    + "\(String(cString: strerror(errno))). Send it SIGHUP, or restart it.")
        }
        try output.line("\(directory.tokenFile) holds a new token; process \(process) takes it now")
    }
}
