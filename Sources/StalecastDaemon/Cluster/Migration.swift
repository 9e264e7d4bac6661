import NIOPosix
import StalecastCluster
import StalecastEtcd
import StalecastRecords
import StalecastStore
import StalecastWebhooks
package import StalecastWire

/// A store of its own that becomes the beginning of a cluster: its versions, numbers and epoch go on, and clients
/// resume with the cursors they have.
package struct Migration: Sendable {
    package struct Report: Sendable {
        package let versions: Int
        package let epoch: Epoch
        package let head: CommitSequence
    }

    /// Reason why the migration was not done; nothing that it wrote counts then.
    package struct Problem: Error, CustomStringConvertible {
        package let description: String
    }

    /// The log is there, or may be, and the store is not its first replica yet: the same again finishes it.
    package struct Unfinished: Error, CustomStringConvertible {
        package let description: String
    }

    private let configuration: Configuration

    package init(_ configuration: Configuration) { self.configuration = configuration }

    /// Puts the store's versions into the log that `store.etcd` and `cluster.name` say, and makes the store the first
    /// replica. The log's metadata comes last: before it nothing counts, and the same again starts over.
    ///
    /// - Parameter progress: versions put so far, and of how many.
    /// - Throws: ``Problem``, ``Unfinished``, and what the store throws.
    package func run(progress: @Sendable (Int, Int) -> Void) async throws -> Report {
        guard configuration.isClustered else {
            throw Problem(description: "store.etcd.endpoints is empty: say in the configuration where etcd is")
        }
        guard !TemplateStore.hasReplica(configuration.data) else {
            throw Problem(description: "\(configuration.data) holds a replica already; just start it")
        }
        let client = try EtcdClient(configuration.etcdConfiguration, on: MultiThreadedEventLoopGroup.singleton)
        defer { client.close() }
        let log = EtcdLog(client, cluster: configuration.cluster.name)
        let store = try TemplateStore.open(configuration.storeConfiguration)
        defer { store.close() }
        try await refuseTooLarge(store)
        let versions = try await put(store, into: log, progress)
        do {
            try WebhookRegistry.unshare(in: configuration.data)
            try await leaveDeliveries(store.epoch, EtcdRecords(client, cluster: configuration.cluster.name))
            // The replica comes last: a directory with one is refused above, so no step after it could be repeated.
            try await store.becomeReplica { StoreHistory.publish(store.epoch, $0).description }
        } catch {
            throw Unfinished(description: "the log is in etcd, but \(configuration.data) is no node yet: \(error)")
        }
        return Report(versions: versions, epoch: store.epoch, head: store.head())
    }

    /// Webhooks go on where this store's daemon left them: who delivers next begins with its cursors.
    private func leaveDeliveries(_ epoch: Epoch, _ records: EtcdRecords) async throws {
        guard let image = try DeliveryImage.left(in: configuration.data, epoch: epoch) else { return }
        for (assignment, ids) in Dictionary(grouping: image.ids, by: \.assignment) {
            let document = image.only(Set(ids)).document(epoch: epoch)
            // 0: the assignment is free.
            guard try await records.keep(document, of: RecordName(AssignmentService.kind, assignment), token: 0) else {
                let name = configuration.cluster.name
                throw Problem(description: "a node of \(name) delivers already: stop all nodes, and migrate again")
            }
        }
    }

    /// Others could not read the log beyond it.
    private func refuseTooLarge(_ store: TemplateStore) async throws {
        guard let version = try await store.version(largerThan: LogEntry.maxContent) else { return }
        throw Problem(
            description: "version \(version.number) of \(version.scope) has more than \(LogEntry.maxContent) bytes, "
                + "which no cluster takes: let store.maxVersions or store.maxVersionAge remove it, and migrate then")
    }

    private func found(_ logMetadata: LogMetadata, _ head: LogHead, _ founding: EtcdFounding) async throws {
        do throws(LogError) { try await founding.found(logMetadata, head: head) } catch {
            if case .notDone = error { throw error }
            throw Unfinished(description: "the log may be in etcd already: \(error)")
        }
    }

    /// Newest page of a log that is there already; nil: there is none that could be read.
    private func page(of log: EtcdLog, after sequence: CommitSequence) async throws(LogError) -> LogPage? {
        do throws(LogError) { return try await log.page(after: sequence, limit: 1) } catch {
            // The usual case: it is founded now, which fails where anything is in its place.
            if case .unreadable = error { return nil }
            throw error
        }
    }

    private func put(
        _ store: TemplateStore, into log: EtcdLog, _ progress: @Sendable (Int, Int) -> Void
    ) async throws -> Int {
        let history = try StoreHistory(of: store, node: configuration.cluster.effectiveNode)
        if let page = try await page(of: log, after: history.head.sequence) {
            // The former run ended between the log metadata and the store's becoming a replica.
            if page.head == history.head, page.logMetadata.epoch == store.epoch { return 0 }
            throw Problem(
                description: "the cluster \(configuration.cluster.name) has a log already, of epoch "
                    + "\(page.logMetadata.epoch); give this one another cluster.name")
        }
        let founding = try await log.beginFounding()
        let (versions, logMetadata) = try await history.lay(progress: progress) { try await founding.lay($0, $1) }
        try await found(logMetadata, history.head, founding)
        return versions
    }
}
