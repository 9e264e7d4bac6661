import ArgumentParser
import Foundation
import Logging
import StalecastDaemon
import StalecastWire

struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Run the daemon: config server, streams, long-polls, control API.",
        discussion: """
            With no configuration at all it serves project `demo` with its data in ./stalecast-data: Edge on \
            127.0.0.1:8080, Control on 127.0.0.1:8081. The control token is written to <data>/control.token at first \
            start, the addresses really bound to <data>/endpoints.json once both accept.

            EXAMPLES
              stalecast serve
              stalecast serve --config stalecast.yaml
              stalecast serve --edge 0.0.0.0:8443 --tls-cert tls.pem --tls-key tls.key
              stalecast serve --data /var/lib/stalecast \\
                --edge 127.0.0.1:0 --control 127.0.0.1:0
              STALECAST_LOG_LEVEL=debug stalecast serve --log-format json

            SIGNALS
              TERM, INT  end: readiness off, publishes finished, streams ended one after the other (at most 15 s)
              INT again  end at once
              HUP        reload the configuration; on an error the old one stays; no stream is dropped

            EXIT CODES
              0   ended by a signal
              1   cannot start, or the store failed while running (the last log line says why)
              2   bad flags
              70  was told to end and something hung: ended without waiting for it
              78  the configuration has problems (all of them are printed)
              130 interrupted twice
            """)

    @OptionGroup var options: ServeOptions

    func run() async throws {
        // Ignores SIGPIPE: a closed log pipe must not end the daemon.
        signal(SIGPIPE, SIG_IGN)
        let signals = ProcessSignals()
        let (path, overrides) = (options.config, options.overrides)
        let load: @Sendable () throws(ConfigurationProblems) -> Configuration = { () throws(ConfigurationProblems) in
            try ConfigurationLoader.load(
                path: path, environment: ProcessInfo.processInfo.environment, overrides: overrides)
        }
        var configuration: Configuration
        do {
            configuration = try load()
            configuration.store.beginEmpty = options.beginEmpty
        } catch {
            StandardError.write("\(error)\n")
            throw ExitCode(78)
        }
        DaemonLog.setLevel(configuration.log.level)
        let format = configuration.log.format
        LoggingSystem.bootstrap { label in DaemonLog(label: label, format: format) }
        let logger = Logger(label: "stalecast")
        do {
            try await Daemon(configuration: configuration, logger: logger, signals: signals, reload: load).run()
        } catch is EpochChanged {
            logger.notice("restarting this process as a new replica")
            Self.beginAnew()
            throw ExitCode(1)
        } catch {
            logger.critical("ended", metadata: ["error": "\(error)"])
            throw ExitCode((error as? StartError)?.exitStatus ?? 1)
        }
    }

    /// Runs the same program with the same arguments in this process's place, so that supervisors see no end.
    private static func beginAnew() {
        SystemdMessage.beginningAnew.send()
        let handed = HandedSockets().descriptors
        // The next program must not hold this one's listeners and locks. No /proc: nothing to close.
        for name in (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? [] {
            if let descriptor = Int32(name), descriptor > 2, !handed.contains(descriptor) {
                _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            }
        }
        var arguments = CommandLine.arguments.map { strdup($0) } + [nil]
        execv("/proc/self/exe", &arguments)
    }
}
