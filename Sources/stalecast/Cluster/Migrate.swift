import ArgumentParser
import Foundation
import StalecastDaemon
import StalecastWire

struct Migrate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate",
        abstract: "Put a store's versions into etcd, and make it the first node of a cluster.",
        discussion: """
            The daemon must be stopped. Epoch, sequences and version numbers stay, so that clients resume with the cursors they \
            have. Until it says that it is done, start no daemon; the same command again finishes one that was cut off. \
            API keys, proposals and webhooks stay in the data directory.

            The way back: start a node without store.etcd. Its store goes on by itself, with a new epoch.

            Examples:
              stalecast migrate --to-etcd --config /etc/stalecast/stalecast.yaml
              stalecast migrate --to-etcd --config stalecast.yaml --json
            """)

    @Flag(name: .long, help: "Where to: the etcd that the configuration names.")
    var toEtcd = false

    @Option(help: .value("file", "The configuration, with store.etcd.endpoints."), completion: .file())
    var config: String

    @Option(name: [.long], help: .value("dir", "The data directory (default: the configuration's)."))
    var data: String?

    @OptionGroup var outputOptions: OutputOptions

    func validate() throws {
        guard toEtcd else { throw ValidationError("say where to: --to-etcd") }
    }

    func run() async throws {
        let configuration = try Configuration.loaded(config, ConfigurationOverrides(dataDirectory: data))
        let report: Migration.Report
        do {
            report = try await Migration(configuration).run { count, all in
                if isatty(STDERR_FILENO) == 1 {
                    StandardError.write("\r\(count) of \(all) versions")
                }
            }
        } catch let error as Migration.Unfinished {
            throw CommandFailure(
                .outcomeUnknown, "the migration is not finished: \(error)",
                advice: "run the same command again before any daemon is started; it goes on where this one ended")
        } catch {
            throw CommandFailure(.refused, "nothing was migrated: \(error)")
        }
        if isatty(STDERR_FILENO) == 1 { StandardError.write("\r\u{1B}[K") }
        let sentence =
            "\(report.versions) versions are in etcd; cluster \(configuration.cluster.name) begins at \(report.epoch)."
            + "\(report.head), and \(configuration.data) is its first node"
        try outputOptions.output.show(
            [
                "versions": .int(report.versions), "epoch": .string(report.epoch.description),
                "head": .string(String(report.head)), "data": .string(configuration.data),
            ], [sentence])
    }
}
