import ArgumentParser
import StalecastDaemon

/// `stalecast version`.
struct Version: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Print the version of this binary.",
        discussion: """
            Examples:
              stalecast version
              stalecast --version
            """)

    func run() async throws { try Output(isJSON: false, palette: Palette(isOn: false)).line(DaemonVersion.text) }
}
