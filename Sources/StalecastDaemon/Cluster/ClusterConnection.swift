import Foundation
import Logging
import NIOPosix
import StalecastCluster
import StalecastEtcd
import StalecastRecords
import StalecastStore
import StalecastWire

/// Connection to a cluster's log, which is made before the store is opened.
struct ClusterConnection: Sendable {
    let client: EtcdClient
    let log: EtcdLog
    private let configuration: Configuration
    private let logger: Logger

    /// - Throws: ``StartError`` for files that are of no use.
    init(_ configuration: Configuration, _ logger: Logger) throws(StartError) {
        do {
            client = try EtcdClient(configuration.etcdConfiguration, on: MultiThreadedEventLoopGroup.singleton)
        } catch {
            throw StartError("store.etcd: \(error)")
        }
        log = EtcdLog(client, cluster: configuration.cluster.name, watches: configuration.isEdge ? 2 : 1)
        self.configuration = configuration
        self.logger = logger
    }

    private static let askAgain: Duration = .milliseconds(500)

    /// Opens the data directory as a replica that has been at the log's end, and makes the log when there is none.
    /// While etcd cannot be reached, what is there is opened as it is; without any, it waits.
    ///
    /// - Returns: nil when the daemon was told to end meanwhile.
    /// - Throws: ``StartError``, and what the store throws.
    func openStore(_ signals: ProcessSignals) async throws -> TemplateStore? {
        try await judgeMembers()
        guard let replica = try await replica(signals) else { return nil }
        var settings = configuration.storeConfiguration
        settings.replica = replica
        let store = try TemplateStore.open(settings) { [logger] in logger.log($0) }
        do {
            guard try await fill(store, signals) else {
                store.close()
                return nil
            }
        } catch {
            store.close()
            throw error
        }
        return store
    }

    /// Refuses members that are too old, or no etcd; ``EtcdMembers`` warns of others.
    private func judgeMembers() async throws(StartError) {
        for (number, endpoint) in configuration.store.etcd.endpoints.enumerated() {
            // One that is silent now is asked again while the daemon runs.
            guard let status = try? await client.status(of: number) else { continue }
            if status.suitability.word == .refused, let sentence = status.suitability.finding {
                throw StartError("store.etcd: \(endpoint): \(sentence)")
            }
        }
    }

    private func replica(_ signals: ProcessSignals) async throws -> StoreConfiguration.Replica? {
        var hasSaid = false
        while !signals.areEnding {
            do {
                let logMetadata = try await logMetadata()
                // An edge seals nothing, and opens nothing that others sealed.
                if !configuration.isEdge { try ClusterVault(configuration).check(logMetadata) }
                var replica = StoreConfiguration.Replica(epoch: logMetadata.epoch)
                replica.floors = logMetadata.floors
                return replica
            } catch let error as LogError {
                if case .unreadable(let sentence) = error { throw StartError("store.etcd: \(sentence)") }
                if TemplateStore.hasReplica(configuration.data) {
                    logger.warning(
                        "etcd cannot be reached, this node goes on with what it has", metadata: ["error": "\(error)"])
                    return StoreConfiguration.Replica(epoch: nil)
                }
                if !hasSaid { logger.error("waiting for etcd", metadata: ["error": "\(error)"]) }
                hasSaid = true
                try await Task.sleep(for: Self.askAgain)
            }
        }
        return nil
    }

    private func logMetadata() async throws(LogError) -> LogMetadata {
        do throws(LogError) { return try await log.page(after: 0, limit: 1).logMetadata } catch {
            guard case .unreadable = error else { throw error }
            // An edge makes no log: it waits until a core node has, or until its program is upgraded.
            if configuration.isEdge { throw .notDone(error.description) }
            let logMetadata = try await log.amend(nil, to: LogMetadata(epoch: .random()))
            logger.notice("the cluster's log was missing and was created", metadata: ["epoch": "\(logMetadata.epoch)"])
            return logMetadata
        }
    }

    private func fill(_ store: TemplateStore, _ signals: ProcessSignals) async throws -> Bool {
        guard try !store.replicaState().isWhole else { return true }
        logger.info("taking over what is in the cluster's log", metadata: ["epoch": "\(store.epoch)"])
        while !signals.areEnding {
            do {
                guard try await ClusterNode.fill(store, from: log) else {
                    // Entries that are not of one history make each beginning like the one before.
                    try await Task.sleep(for: Self.askAgain)
                    throw EpochChanged()
                }
                logger.info("the replica is whole", metadata: ["sequence": "\(store.head())"])
                return true
            } catch let error as LogError {
                if case .unreadable(let sentence) = error { throw StartError("store.etcd: \(sentence)") }
                logger.warning("the cluster's log cannot be read", metadata: ["error": "\(error)"])
                try await Task.sleep(for: Self.askAgain)
            }
        }
        return false
    }
}

/// The log's history is another one now: the process has to restart, and takes its versions from there.
package struct EpochChanged: Error, CustomStringConvertible {
    package let description = "the cluster's log has another history; beginning anew"
}

extension Configuration {
    var etcdConfiguration: EtcdConfiguration {
        var etcd = EtcdConfiguration(store.etcd.endpoints)
        // Requests wait for a call that is under way.
        if isEdge { etcd.mostTimeout = .seconds(5) }
        etcd.tls = EtcdTLS(
            authorities: store.etcd.caFile,
            certificate: store.etcd.certificate.flatMap { chain in store.etcd.key.map { (chain, $0) } })
        if let user = store.etcd.user, let file = store.etcd.passwordFile {
            etcd.credentials = (user, { try Self.firstLine(of: file) })
        }
        return etcd
    }

    private static func firstLine(of file: String) throws -> String {
        let text = try String(contentsOfFile: file, encoding: .utf8)
        return String(text.prefix { !$0.isNewline })
    }
}
