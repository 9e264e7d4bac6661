import Foundation
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
    /// Report of what was done.
    package struct Report: Sendable {
        package let versions: Int
        package let epoch: Epoch
        package let head: CommitSequence
    }

    /// Why it was not done; nothing counts then.
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
    /// replica. The log's metadata comes last: before it nothing counts, and the same again begins anew.
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
            try await store.becomeReplica { Self.publish(store.epoch, $0).description }
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

    private func put(
        _ store: TemplateStore, into log: EtcdLog, _ progress: @Sendable (Int, Int) -> Void
    ) async throws -> Int {
        let head = LogHead(store.head() == 0 ? "0" : "\(store.head()) \(Self.publish(store.epoch, store.head()))")
        guard let head else { throw Problem(description: "the store's head is no head") }
        if let page = try? await log.page(after: store.head(), limit: 1) {
            // The former run ended between the log metadata and the store's becoming a replica.
            if page.head == head, page.logMetadata.epoch == store.epoch { return 0 }
            throw Problem(
                description: "the cluster \(configuration.cluster.name) has a log already, of epoch "
                    + "\(page.logMetadata.epoch); give this one another cluster.name")
        }
        let founding = try await log.beginFounding()
        let releases = Self.releases(of: store)
        for (sequence, (release, change)) in releases where sequence != change.sequence {
            try await lay(change.at(sequence), [release], nil, store.epoch, founding)
        }
        let steps = Set(releases.keys)
        var (count, after, wholeFrom) = (0, CommitSequence(0), CommitSequence(1))
        let all = try await store.countVersions()
        while true {
            let versions = try await store.versions(after: after, limit: 50)
            if versions.isEmpty { break }
            for version in versions {
                let sequence = version.change.sequence
                while steps.contains(after + 1), after + 1 < sequence { after += 1 }
                if sequence != after + 1 { wholeFrom = sequence }
                after = sequence
                let ownReleases = releases[sequence].map { [$0.release] } ?? []
                try await lay(version.change, ownReleases, version.content, store.epoch, founding)
                count += 1
            }
            progress(count, all)
        }
        while steps.contains(after + 1) { after += 1 }
        // The newest commits may be of versions that retention took.
        if after < head.sequence { wholeFrom = head.sequence + 1 }
        var logMetadata = LogMetadata(epoch: store.epoch)
        logMetadata.prunedBelow = wholeFrom
        logMetadata.raiseFloors(to: try store.numbersGivenAway())
        try await found(logMetadata, head, founding)
        return count
    }

    /// Releases of the current versions and those that these ended, by the sequence of the entry that says how they
    /// are: the last stage's, or the current version's.
    private static func releases(
        of store: TemplateStore
    ) -> [CommitSequence: (release: Release, change: TemplateChange)] {
        store.currentTemplates.scopes.reduce(into: [:]) { releases, scope in
            guard let release = store.release(of: scope), let current = store.currentTemplates[scope]?.change else {
                return
            }
            if release.version == current.version {
                releases[release.reached.last?.sequence ?? current.sequence] = (release, current)
            } else if release.successor == current.version {
                releases[current.sequence] = (release, current)
            }
        }
    }

    /// - Parameter content: nil for a step of a release.
    private func lay(
        _ change: TemplateChange, _ releases: [Release], _ content: [UInt8]?, _ epoch: Epoch,
        _ founding: EtcdFounding
    ) async throws {
        let sequence = change.sequence
        let previous = sequence == 1 ? "0" : "\(sequence - 1) \(Self.publish(epoch, sequence - 1))"
        guard let previous = LogHead(previous) else { return }
        var chunks: [[UInt8]] = []
        let (publish, node) = (Self.publish(epoch, sequence), configuration.cluster.effectiveNode)
        let entry =
            content.map {
                LogEntry(
                    change: change, releases: releases, publish: publish, after: previous, node: node,
                    fetchWindowMs: 0, storing: $0, chunks: &chunks)
            }
            ?? LogEntry(
                change: change, releases: releases, publish: publish, after: previous, node: node, content: .absent)
        try await founding.lay(entry, chunks)
    }

    /// Publish id that is the same each time: by its head this store knows the log that a run which was cut off has
    /// founded.
    private static func publish(_ epoch: Epoch, _ sequence: CommitSequence) -> PublishID {
        PublishID(of: "\(epoch).\(sequence)")
    }
}
