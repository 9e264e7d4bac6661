import ArgumentParser
import StalecastDaemon
import StalecastWire

struct Version: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "version",
        abstract: "Print the version of this binary.",
        discussion: """
            A build before a release is named after that release, with the number of its commit: 0.3.0~git14.51b72f7 comes \
            before 0.3.0. With --json the whole commit is printed, too.

            Examples:
              stalecast version
              stalecast --version
            """)

    @OptionGroup var outputOptions: OutputOptions

    func run() async throws {
        try outputOptions.output.show(
            ["version": .string(DaemonVersion.text), "revision": .string(DaemonVersion.revision)], [DaemonVersion.text])
    }
}
