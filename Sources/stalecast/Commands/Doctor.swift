import ArgumentParser
import Foundation
import StalecastDaemon
import StalecastWire

struct Doctor: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Check this machine and the daemon, and say what needs attention.",
        discussion: """
            Looks at descriptors, the queue of new connections, connection tracking, memory, the clock, the disk, certificates, and the \
            names that sources and webhooks need. Of a daemon that runs, its limits count, else those of this shell; and the daemon \
            is asked for its readiness, versions of both ends, configuration, store, webhooks, sources and cluster. Where something \
            needs you, the line below is the command. The exit code is 1 when something needs you. With --control or --context, and \
            without --data, --config and --streams also with $STALECAST_CONTROL or a context in use, only that daemon is asked, \
            which may run elsewhere.

            Examples:
              stalecast doctor
              stalecast doctor --streams 500000
              stalecast doctor --context prod
              stalecast doctor --config /etc/stalecast/stalecast.yaml --json
            """)

    @Option(help: .value("file", "The daemon's configuration (default: only the environment)."), completion: .file())
    var config: String?

    @Option(help: "Streams that should be possible (default: edge.maxConnections, else 10000).")
    var streams: Int?

    @OptionGroup var connection: ConnectionOptions

    func run() async throws {
        let findings: [SystemCheck.Finding]
        if asksOnlyDaemon {
            findings = await daemon(connection)
        } else {
            let loaded = try loadConfiguration()
            let here = connectionToDaemon(of: loaded)
            findings = machine(loaded, here.data.running()) + (await daemonHere(here))
        }
        try report(findings)
        if findings.contains(where: { $0.command != nil }) { throw ExitCode(ExitStatus.refused.rawValue) }
    }

    /// Whether a daemon is named that may run elsewhere: by a flag, a variable or the context in use, as for all commands.
    private var asksOnlyDaemon: Bool {
        connection.namesDaemon || config == nil && streams == nil && connection.isElsewhere
    }

    private func loadConfiguration() throws(CommandFailure) -> Configuration {
        var configuration = try Configuration.loaded(config)
        // What the configuration says holds unless the command line names a directory.
        if let path = connection.data.path { configuration.data = path }
        return configuration
    }

    /// Connection to the daemon of the directory that the configuration file names; without one, as the options say.
    private func connectionToDaemon(of configuration: Configuration) -> ConnectionOptions {
        var connection = connection
        if config != nil, connection.data.path == nil, configuration.data != Configuration().data {
            // Members of the service's group may not enter its data directory.
            let isOfUnit = configuration.data == DataDirectory.ofUnit.path && DataDirectory.service.exists
            connection.place.data.path = isOfUnit ? DataDirectory.service.path : configuration.data
        }
        return connection
    }

    private func machine(_ configuration: Configuration, _ directory: DataDirectory) -> [SystemCheck.Finding] {
        // Without a daemon this shell's limits are all there is to say.
        let endpoints = try? directory.endpoints()
        let process = endpoints.flatMap { $0.isRunning ? $0.process : nil }
        let check = SystemCheck(configuration, wanted: streams, process: process)
        let files = configuration.issuerFileProblems.map { problem in
            SystemCheck.Finding(subject: "issuers", sentence: problem, command: "stalecast check-config")
        }
        let store = process == nil ? [check.store].compactMap(\.self) : []
        return check.findings + store + check.certificates + files + check.lookups
    }

    /// Findings about the daemon of the data directory.
    private func daemonHere(_ connection: ConnectionOptions) async -> [SystemCheck.Finding] {
        let directory = connection.data.running()
        func missing(_ sentence: String, _ command: String) -> [SystemCheck.Finding] {
            [SystemCheck.Finding(subject: "daemon", sentence: sentence, command: command)]
        }
        do throws(CommandFailure) {
            let endpoints = try directory.endpoints()
            if endpoints.isRunning { return await daemon(connection) }
            return missing(
                "no daemon runs on \(directory.path); its process \(endpoints.process ?? 0) has ended",
                "journalctl -u stalecast -n 50")
        } catch {
            // A clean stop removes the file; a file that cannot be read has a sentence of its own.
            guard directory.hasNoEndpoints else { return missing(error.sentence, error.advice ?? "stalecast status") }
            if isOfUnit(directory) {
                return missing("no daemon runs on \(DataDirectory.ofUnit.path)", "systemctl start stalecast")
            }
            return missing("no daemon runs on \(directory.path)", "stalecast serve --data '\(directory.path)'")
        }
    }

    /// Whether the installed unit's daemon is meant: systemd removes its runtime directory when it stops.
    private func isOfUnit(_ directory: DataDirectory) -> Bool {
        guard DataDirectory.hasUnit else { return false }
        let isNamed = [DataDirectory.ofUnit.path, DataDirectory.service.path].contains(directory.path)
        return isNamed || connection.data.path == nil && !directory.exists
    }

    private func daemon(_ connection: ConnectionOptions) async -> [SystemCheck.Finding] {
        do throws(CommandFailure) {
            let client = try connection.controlClient()
            let status = try await client.send("GET", "/status").json()
            // Only a node of a cluster has an answer.
            let cluster = try? await client.send("GET", "/v1/cluster").json()
            let answer = SystemCheck.Finding(subject: "daemon", sentence: "the daemon answers at \(client.address.url)")
            let now = Int(Date().timeIntervalSince1970)
            return [answer] + DaemonCheck(status, cluster: cluster, version: DaemonVersion.text, now: now).findings
        } catch {
            return [
                SystemCheck.Finding(
                    subject: "daemon", sentence: error.sentence,
                    command: error.advice ?? "journalctl -u stalecast -n 50")
            ]
        }
    }

    private func report(_ findings: [SystemCheck.Finding]) throws {
        let output = connection.output
        let rows: [JSONValue] = findings.map { finding in
            [
                "subject": .string(finding.subject), "isGood": .bool(finding.command == nil),
                "sentence": .string(finding.sentence), "command": finding.command.map(JSONValue.string),
            ]
        }
        let lines = findings.flatMap { finding in
            let mark = finding.command == nil ? output.palette.green("ok") : output.palette.red("!!")
            let command = finding.command.map { ["      \($0.printable)"] } ?? []
            return ["\(mark)  \(finding.sentence.printable)"] + command
        }
        try output.show(["findings": .array(rows)], lines)
    }
}
