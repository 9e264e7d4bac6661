import ArgumentParser
import Foundation
import Logging
import StalecastDaemon
import StalecastWire

struct Emulator: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "emulator",
        abstract: "Emulate Remote Config for development and tests: no keys, open to every page, keeps nothing.",
        discussion: """
            This is the daemon of `serve` with other settings: its data is a temporary directory that goes with it, \
            pages of every origin may fetch and listen, Edge asks for no key, and Control's token is always \
            \(EmulatorData.token).

            TEMPLATE is published at the start, and again whenever the file changes. A mistake in it is shown, and the \
            version before stays. When the emulator is ready it prints what points each SDK at it; with --json it \
            prints one object instead, for scripts.

            EXAMPLES
              stalecast emulator
              stalecast emulator samples/templates/demo.json
              stalecast emulator --import samples/templates/demo.json
              stalecast emulator --seed-values max_items=3 --seed-values beta=true
              stalecast emulator --edge 127.0.0.1:0 --control 127.0.0.1:0 \\
                --exit-when-parent-exits --json

            EXIT CODES
              0   ended by a signal, or with its parent
              1   the template is not valid, or the emulator cannot start
              2   bad flags
              78  an address is none
            """)

    @Argument(help: "The template as JSON; published again when the file changes.", completion: .file())
    var template: String?

    @Option(
        name: .customLong("import"),
        help: "Publish this template once, for example what `firebase remoteconfig:get -o FILE` wrote.",
        completion: .file())
    var imported: String?

    @Option(
        help: .value(
            "key=value",
            "Set a parameter at each publish of the template; may be repeated. A new parameter's type is read from its "
                + "value: 3 is a number, true a boolean, {} and [] are JSON, the rest is text."))
    var seedValues: [String] = []

    @Option(help: "The project's id (default: demo).")
    var project: String?

    @Option(help: .value("number", "The project's number, which phones take from their app id."))
    var projectNumber = 123_456_789_012

    @Option(help: "HOST:PORT of the public listener (default: 127.0.0.1:8080; port 0 takes a free one).")
    var edge: String?

    @Option(help: "HOST:PORT of the private listener (default: 127.0.0.1:8081; port 0 takes a free one).")
    var control: String?

    @Flag(help: "End when the process that started the emulator ends, however it does.")
    var exitWhenParentExits = false

    @Flag(help: "Print one JSON object with the addresses when the emulator is ready, instead of text.")
    var json = false

    @Option(
        help: "trace, debug, info, notice, warning, error or critical (default: error).",
        completion: .list(["trace", "debug", "info", "notice", "warning", "error", "critical"]))
    var logLevel: String?

    func validate() throws {
        if template != nil, imported != nil {
            throw ValidationError("give TEMPLATE, whose file is watched, or --import, whose file is not")
        }
        if let wrong = seedValues.first(where: { !$0.contains("=") || $0.hasPrefix("=") }) {
            throw ValidationError("--seed-values: \"\(wrong)\" is not KEY=VALUE")
        }
    }

    func run() async throws {
        // Ignores SIGPIPE: a test runner that closes the pipe must not end the emulator.
        signal(SIGPIPE, SIG_IGN)
        let parent = exitWhenParentExits ? getppid() : nil
        let contents = EmulatorContents(path: template ?? imported, isWatched: template != nil, seeds: seedValues)
        let first = try contents.read()
        let signals = ProcessSignals()
        let data = try EmulatorData(in: NSTemporaryDirectory())
        defer { data.remove() }
        let configuration = try configuration(in: data)
        DaemonLog.setLevel(configuration.log.level)
        LoggingSystem.bootstrap { label in DaemonLog(label: label, format: configuration.log.format) }
        let daemon = Daemon(configuration: configuration, logger: Logger(label: "stalecast"), signals: signals) {
            () throws(ConfigurationProblems) in configuration
        }
        let companion = EmulatorCompanion(
            data: data, contents: contents, scope: configuration.scopes[0], parent: parent, isJSON: json)
        do {
            if let failure = try await run(daemon, beside: { await companion.run(first) }) { throw failure }
        } catch let error as CommandFailure {
            throw error
        } catch {
            throw CommandFailure(.refused, "the emulator cannot run: \(error)")
        }
    }

    /// Runs both until the daemon has ended.
    ///
    /// - Returns: why the companion ended the daemon; nil when it did not.
    private func run(
        _ daemon: Daemon, beside companion: @escaping @Sendable () async -> CommandFailure?
    ) async throws -> CommandFailure? {
        try await withThrowingTaskGroup(of: CommandFailure?.self) { group in
            group.addTask {
                try await daemon.run()
                return nil
            }
            group.addTask { await companion() }
            var failure: CommandFailure?
            for try await ended in group {
                // The daemon ends in order at a signal only.
                if ended != nil { kill(getpid(), SIGTERM) } else { group.cancelAll() }
                failure = failure ?? ended
            }
            return failure
        }
    }

    private func configuration(in data: EmulatorData) throws(CommandFailure) -> Configuration {
        let text = """
            edge: {allowedOrigins: ["*"], canary: false}
            shutdown: {drain: 0s}
            projects: [{id: \(JSONValue.string(project ?? "demo").text()), number: \(projectNumber)}]
            """
        // A container's address is not loopback. Nothing that the emulator holds is worth TLS.
        let overrides = ConfigurationOverrides(
            dataDirectory: data.path, edge: edge, control: control, logLevel: logLevel ?? "error", proxied: true)
        do {
            return try ConfigurationLoader.load(text: text, file: "the emulator", overrides: overrides)
        } catch {
            throw CommandFailure(
                .misconfigured, "the emulator cannot run with these flags", problems: error.problems.map(\.description))
        }
    }
}
