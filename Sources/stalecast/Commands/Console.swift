import ArgumentParser
import Foundation
import StalecastWire

struct Console: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "console",
        abstract: "Open the console in a browser: who has it, template, versions, webhooks.",
        discussion: """
            Prints an address that signs in once, within a minute, with what the token or key here may do; on a desktop's \
            terminal the browser opens by itself. Where Control is on another machine, let ssh bring it here:
            `ssh -L 8081:127.0.0.1:8081 HOST`, then open http://127.0.0.1:8081/console/ and paste the token.

            Examples:
              stalecast console
              stalecast console --no-open
              stalecast console --json | jq -r .url
            """)

    @Flag(name: .customLong("no-open"), help: "Only print the address.")
    var staysClosed = false

    @OptionGroup var connection: ConnectionOptions

    func run() async throws {
        let client = try connection.controlClient()
        let answer = try await client.send("POST", "/console/code").json()
        guard let path = answer["path"]?.string, path.hasPrefix("/console/") else {
            throw CommandFailure(
                .refused, "the answer has no address; is something else than Stalecast listening there?")
        }
        let (url, output) = (client.address.url + path, connection.output)
        if output.isJSON {
            return try output.json(["url": .string(url), "expires": answer["expires"] ?? .null])
        }
        let isOpening = !staysClosed && isatty(STDOUT_FILENO) == 1 && Self.open(url)
        try output.line(url)
        try output.line(isOpening ? "The browser opens it." : "Open it within a minute; it signs in once.")
    }

    /// Whether there is a desktop whose browser was asked.
    private static func open(_ url: String) -> Bool {
        let environment = ProcessInfo.processInfo.environment
        guard environment["DISPLAY"] != nil || environment["WAYLAND_DISPLAY"] != nil else { return false }
        let opener = Process()
        opener.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        opener.arguments = ["xdg-open", url]
        (opener.standardOutput, opener.standardError) = (FileHandle.nullDevice, FileHandle.nullDevice)
        // Without one the address is on the screen.
        return (try? opener.run()) != nil
    }
}
