import CLinux
import Foundation
import Logging
import ServiceLifecycle
import StalecastCluster
import StalecastControl
import StalecastEdge
import StalecastEtcd
import StalecastHub
import StalecastRecords
import StalecastSources
import StalecastStore
import StalecastWire
import Synchronization

/// Parts that make this daemon a node of a cluster.
final class ClusterParts: Sendable {
    let node: ClusterNode
    let nodes: Membership
    /// Sends a message to the subscribers of all nodes.
    let relay: MessageRelay
    private let connection: ClusterConnection
    let cluster: Configuration.Cluster
    let members: EtcdMembers
    let waits = FreshnessTally()
    let store: TemplateStore
    let vault: ClusterVault
    /// Number of copies of former histories in the data directory; the process restarts when there is one more.
    let formerCopies: Int
    private let epochs: AsyncStream<Void>
    private let proposals: SharedProposals
    /// Receiver of the node's reports, which is made after the node. Lies in a struct, because a mutex wraps a bare function
    /// once more at each access.
    private struct Reports {
        var take: (@Sendable (ClusterNode.Report) -> Void)?
    }
    private let hasForeignEpoch = Atomic(false)
    /// Reasons why the log cannot be reached, and why what was read cannot be stored; nil: it can.
    private let problems = Mutex<(reach: String?, store: String?)>((nil, nil))

    /// - Throws: what the store says when its state cannot be read.
    init(
        _ connection: ClusterConnection, _ store: TemplateStore, _ hub: Hub, _ configuration: Configuration,
        _ logger: Logger
    ) throws {
        self.connection = connection
        self.store = store
        cluster = configuration.cluster
        nodes = Self.membership(connection, configuration, logger)
        relay = MessageRelay(nodes)
        vault = ClusterVault(configuration)
        formerCopies = Self.formerCopies(in: configuration.data)
        members = EtcdMembers(connection.client, configuration.store.etcd.endpoints) {
            logger.warning("etcd", metadata: ["member": "\($0)", "finding": "\($1)"])
        }
        let (epochs, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        self.epochs = epochs
        proposals = SharedProposals(nodes.informer, store)
        let reports = Mutex(Reports())
        let isEdge = configuration.isEdge
        node = try ClusterNode(
            connection.log, store, name: configuration.cluster.effectiveNode, now: Self.now,
            fetchWindow: { scope, isUrgent in hub.window(of: scope, isUrgent: isUrgent) },
            patience: Self.patience(of: connection, isEdge), isEdge: isEdge,
            // Edges are many, and must not all come back at once.
            backoff: isEdge ? Backoff(from: .seconds(1)) : Backoff(),
            report: { report in reports.withLock { $0.take }?(report) })
        reports.withLock {
            $0.take = { [weak self] report in
                self?.note(report)
                logger.log(report)
                if case .foreignEpoch = report { continuation.yield() }
            }
        }
        store.setAuthority(isEdge ? EdgeAuthority(node) : node)
        if !isEdge { store.share(proposals) }
    }

    /// Whether this node only follows the log.
    var isEdge: Bool { cluster.role == .edge }

    private static func formerCopies(in directory: String) -> Int {
        // The daemon goes without a figure that it cannot read.
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        return names.count { $0.hasPrefix("stalecast.sqlite.of-epoch-") && !$0.hasSuffix("-journal") }
    }

    var name: String { cluster.name }
    var etcdFigures: EtcdFigures { connection.client.figures }
    var etcdDelay: Duration? { connection.client.delay }

    /// Time of a clock that only goes forward.
    static let now: @Sendable () -> Duration = { .nanoseconds(Int64(clamping: stalecast_monotonic_ns())) }

    private func note(_ report: ClusterNode.Report) {
        switch report {
        case .unreachable(let why): problems.withLock { $0.reach = why }
        case .reachable: problems.withLock { $0.reach = nil }
        case .cannotApply(let why): problems.withLock { $0.store = why }
        case .appliesAgain: problems.withLock { $0.store = nil }
        case .foreignEpoch: hasForeignEpoch.store(true, ordering: .relaxed)
        case .renewing, .resolved: break
        }
    }

    /// Whether the process ends in order to restart.
    var beginsAnew: Bool { hasForeignEpoch.load(ordering: .relaxed) }

    /// Follows the log until told to end.
    ///
    /// - Throws: ``EpochChanged``
    func run(_ parts: Daemon.Parts) async throws {
        if !isEdge { nodes.setAssignments(assignments(parts)) }
        await relay.attach(to: parts.hub)
        try await withThrowingTaskGroup { log in
            // Until assignments are handed over: what their work has published needs an answer.
            log.addTask { [node] in await node.run() }
            defer { log.cancelAll() }
            try await work(parts)
        }
        connection.client.close()
    }

    private func work(_ parts: Daemon.Parts) async throws {
        try await withThrowingTaskGroup { group in
            group.addTask { await parts.keys?.run() }
            group.addTask { [nodes] in await nodes.run() }
            group.addTask { [self] in await count(parts) }
            group.addTask { [members] in await members.run() }
            group.addTask { [epochs] in
                for await _ in epochs.cancelOnGracefulShutdown() { throw EpochChanged() }
            }
            if !isEdge {
                group.addTask { [proposals] in await proposals.run() }
                group.addTask { [vault, node] in try await vault.keep(node) }
                group.addTask { [self] in await prune() }
            }
            defer { group.cancelAll() }
            try await group.next()
        }
    }

    private func assignments(_ parts: Daemon.Parts) -> [String: AssignedWork.Body] {
        var assignments: [String: AssignedWork.Body] = [:]
        for watcher in parts.sources.watchers {
            let assignment = "source/\(watcher.scope)"
            assignments[assignment] = { await watcher.run(under: Ownership(assignment: assignment, token: $0)) }
        }
        // The keeper asks who has them.
        for scope in parts.scopes { assignments[Self.assignment(ofReleasesIn: scope)] = { _ in } }
        assignments["contents"] = { [self] _ in await sweepContents() }
        return assignments
    }

    private static func assignment(ofReleasesIn scope: Scope) -> String { "release/\(scope)" }

    /// Ownership under which this node moves the releases of a scope on; nil: another node does.
    func conducts(_ scope: Scope) -> Ownership? {
        let assignment = Self.assignment(ofReleasesIn: scope)
        return nodes.assignments.owned(assignment).map { Ownership(assignment: assignment, token: $0) }
    }

    /// Removes old entries of the log each minute. Every node does; the second one finds nothing to remove.
    private func prune() async {
        while !Task.isCancelled {
            do {
                try await Task.sleep(for: .seconds(.random(in: 45...75)))
                while try await node.prune() == 100 {}
            } catch { continue }
        }
    }

    /// Removes what is not needed beside the log, while that is this node's assignment.
    private func sweepContents() async {
        while !Task.isCancelled {
            // What fails is done the next time.
            _ = try? await node.sweepContents()
            // Cancelled: the loop ends.
            try? await Task.sleep(for: ContentSweep.grace + .seconds(5))
        }
    }

    /// Reasons why this node should get no traffic.
    func unready() async -> [String] {
        if cluster.readiness == .strict { return troubles }
        return isEdge && cluster.fetch == .local ? await tooOld() : []
    }

    /// Reasons why versions do not come here, in sentences.
    private var troubles: [String] {
        let (reach, store) = problems.withLock { $0 }
        return [
            reach.map { "the cluster's log cannot be reached: \($0)" },
            store.map { "the log's versions cannot be stored: \($0)" },
        ].compactMap(\.self)
    }

    /// Problems of this node while it serves anyway, as sentences.
    var degraded: [String] {
        let troubles = troubles
        return troubles.isEmpty ? nodes.problem.map { ["the other nodes may not see this one: \($0)"] } ?? [] : troubles
    }

    private var problem: String? { problems.withLock { $0.reach ?? $0.store } ?? nodes.problem }
}

extension ClusterParts {
    /// The body of `/v1/cluster`.
    func json() async -> JSONValue {
        let follower = await node.follower
        return [
            "name": .string(name), "node": .string(node.name), "epoch": .string(store.epoch.description),
            "head": .string(String(follower.head.sequence)), "ready": .bool(follower.isReady),
            "whole": .bool(follower.isWhole), "etcd": .array(await members.json), "nodes": .array(nodes.json),
            "gone": .array(nodes.goneJSON),
            "logHead": .string(String(max(follower.head.sequence, await node.figures.newest))),
            "publishId": follower.head.publish.map { .string($0.description) },
            "advertise": cluster.advertise.map { .string($0) }, "role": isEdge ? "edge" : nil,
            "unverifiedSeconds": .double(await node.unverified / .seconds(1)),
            "problem": problem.map { .string($0) },
            "charter": follower.logMetadata.map { logMetadata in
                [
                    "format": .int(LogMetadata.format), "minimumVersion": .int(logMetadata.minimumVersion),
                    "prunedBelow": .string(String(logMetadata.prunedBelow)), "frozen": .bool(logMetadata.isFrozen),
                ]
            },
        ]
    }

    /// Operations of the cluster that Control offers.
    var service: ClusterService {
        ClusterService(
            status: { [self] in await json() },
            copyAge: { [self] in await statedAge() },
            changesAt: changesAt,
            newEpoch: { [node] () async throws(LogError) in try await node.renewEpoch().answer },
            upgrade: { [node] () async throws(LogError) in try await node.upgrade().answer },
            outcome: { [self] publish async throws(StoreError) in
                guard let publish = PublishID(publish) else { return .unknown }
                return switch try await node.outcome(of: publish) {
                case .committed(let made): .committed(made)
                case .pending: .pending
                case .notCommitted: .notCommitted
                case .unknown: .unknown
                }
            })
    }
}

extension LogMetadata {
    /// Answer to a change of it.
    fileprivate var answer: JSONValue {
        ["epoch": .string(epoch.description), "minimumVersion": .int(minimumVersion)]
    }
}

extension Logger {
    fileprivate func log(_ report: ClusterNode.Report) {
        switch report {
        case .unreachable(let why): error("the cluster's log cannot be reached", metadata: ["error": "\(why)"])
        case .reachable: notice("the cluster's log can be reached again")
        case .cannotApply(let why): error("a version of the log cannot be stored", metadata: ["error": "\(why)"])
        case .appliesAgain: notice("the log's versions are stored again")
        case .renewing: error("the log is not the one this node followed, a new epoch begins")
        case .foreignEpoch(let epoch): warning("the log has another history", metadata: ["epoch": "\(epoch)"])
        case .resolved(let publish, let isCommitted):
            notice(
                "a publish of unknown outcome is known",
                metadata: [
                    "publish": "\(publish)",
                    "outcome": "\(isCommitted.map { $0 ? "committed" : "not committed" } ?? "unknown for ever")",
                ])
        }
    }
}

extension Daemon.Parts {
    /// Subscribers of a project's topics by transport; those of other nodes as `otherNodes`, where there is one project
    /// only, and of one namespace where no other has the topic: nodes tell of topics by name.
    func subscribers(of project: ProjectID, _ namespace: Namespace?) async -> [TopicName: [String: Int]] {
        let presence = await edge.presence()
        let here = namespace.map { presence.scopes[Scope(project: project, namespace: $0)] } ?? presence.counts[project]
        var counts = (here ?? [:]).mapValues { counts in
            Dictionary(uniqueKeysWithValues: counts.map { ($0.key.rawValue, $0.value) })
        }
        guard let cluster, Set(scopes.map(\.project)).count == 1 else { return counts }
        for topic in hub.bindings where namespace == nil || topic.scopes.count == 1 {
            counts[topic.name, default: [:]]["otherNodes"] = cluster.nodes.subscribersElsewhere(topic.name)
        }
        return counts
    }
}
