import CLinux
import Foundation
import Logging
import ServiceLifecycle
import StalecastAccess
import StalecastCluster
import StalecastControl
import StalecastEdge
import StalecastEtcd
import StalecastHTTP
import StalecastHub
import StalecastRecords
import StalecastSources
import StalecastStore
import StalecastWire
import Synchronization

/// Parts that make this daemon a node of a cluster.
final class ClusterParts: Sendable {
    let node: ClusterNode
    let nodes: ClusterNodes
    private let connection: ClusterConnection
    let cluster: Configuration.Cluster
    let members: EtcdMembers
    let waits = FreshnessTally()
    let store: TemplateStore
    private let vault: ClusterVault
    /// Copies of former histories in the data directory; the process begins anew when there is one more.
    let formerCopies: Int
    /// Settings of the configuration, for other nodes to compare with theirs.
    private let settings: Mutex<[String: String]>
    /// Subscribers by topic, as of a moment ago, and this daemon's addresses.
    private let ours = Mutex(NodeRecord())
    private let epochs: AsyncStream<Void>
    private let hub = LateHub()
    private let proposals: SharedProposals
    /// Receiver of the node's reports, which is made after the node. Lies in a struct, because a mutex wraps a bare function
    /// once more at each access.
    private struct Reports {
        var take: (@Sendable (ClusterNode.Report) -> Void)?
    }
    private let hasForeignEpoch = Atomic(false)
    /// Why the log cannot be reached, and why what was read cannot be stored; nil: it can.
    private let problems = Mutex<(reach: String?, store: String?)>((nil, nil))
    /// One whose store takes nothing for longer gives its assignments to others: what it does not know it cannot
    /// deliver.
    private static let longestStall: Duration = .seconds(10)

    /// - Throws: what the store says when its state cannot be read.
    init(
        _ connection: ClusterConnection, _ store: TemplateStore, _ configuration: Configuration, _ logger: Logger
    ) throws {
        self.connection = connection
        self.store = store
        cluster = configuration.cluster
        nodes = ClusterNodes(connection.client, configuration.cluster, logger)
        vault = ClusterVault(configuration)
        settings = Mutex(configuration.sharedSettings)
        formerCopies = Self.formerCopies(in: configuration.data)
        members = EtcdMembers(connection.client, configuration.store.etcd.endpoints) {
            logger.warning("etcd", metadata: ["member": "\($0)", "finding": "\($1)"])
        }
        let (epochs, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        self.epochs = epochs
        proposals = SharedProposals(nodes.board, store)
        let reports = Mutex(Reports())
        let hub = hub
        let isEdge = configuration.isEdge
        node = try ClusterNode(
            connection.log, store, name: configuration.cluster.effectiveNode, now: Self.now,
            fetchWindow: { scope, isUrgent in hub.held.withLock(\.self)?.window(of: scope, isUrgent: isUrgent) ?? 0 },
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

    /// Attaches the hub, which knows over which time clients spread their fetches after a publish of this node.
    func attach(_ hub: Hub) { self.hub.held.withLock { $0 = hub } }

    /// The daemon goes without a figure that it cannot read.
    private static func formerCopies(in directory: String) -> Int {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
        return names.count { $0.hasPrefix("stalecast.sqlite.of-epoch-") && !$0.hasSuffix("-journal") }
    }

    var name: String { cluster.name }
    var etcdFigures: EtcdFigures { connection.client.figures }

    /// Marks that nodes compare to see that they are configured alike.
    ///
    /// - Throws: ``StartError`` when the key of the webhooks' secrets cannot be read.
    func marks(of configuration: Configuration, _ token: TokenFile) throws(StartError) -> [String: String] {
        var marks = configuration.sharedSettings
        // An edge has its own token and no key of the webhooks.
        if configuration.isEdge { return marks }
        marks["control.token"] = configuration.control.tokenEnabled ? try vault.mark(of: token.digest) : "none"
        return marks
    }

    /// Tells the others how this node is configured, from now on.
    func describe(_ marks: [String: String]) {
        settings.withLock { $0 = marks }
        ours.withLock {
            ($0.settings, $0.configurationHash, $0.isEdge) = (marks, Self.hash(marks), isEdge)
            $0.addresses["control"] = cluster.advertise
        }
    }

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

    /// Whether the process ends to begin anew.
    var beginsAnew: Bool { hasForeignEpoch.load(ordering: .relaxed) }

    /// Follows the log until told to end.
    ///
    /// - Throws: ``EpochChanged``
    func run(_ parts: Daemon.Parts) async throws {
        let (hub, board) = (parts.hub, nodes)
        if !isEdge { nodes.setAssignments(assignments(parts)) }
        try await withThrowingTaskGroup { group in
            group.addTask { await parts.keys?.run() }
            group.addTask { [self] in
                await board.run({ [self] in ours.withLock { $0 } }, heard: { hub.send($0) })
            }
            group.addTask { [self] in await count(parts) }
            group.addTask { [node] in await node.run() }
            group.addTask { [members] in await members.run() }
            group.addTask { [epochs] in
                for await _ in epochs.cancelOnGracefulShutdown() { throw EpochChanged() }
            }
            if !isEdge {
                group.addTask { [proposals] in await proposals.run() }
                group.addTask { [vault, node] in try await vault.keep(node) }
                group.addTask { [self] in await prune() }
            }
            defer {
                group.cancelAll()
                // A call over a line that is cut would take longer than a stop may.
                if isEdge, problems.withLock({ $0.reach != nil }) { connection.client.close() }
            }
            try await group.next()
        }
        connection.client.close()
    }

    private func assignments(_ parts: Daemon.Parts) -> [String: ClusterNodes.Body] {
        var assignments: [String: ClusterNodes.Body] = [:]
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

    /// Lets go of the log's old entries each minute. Every node does: who comes second finds nothing to do.
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

    /// Why this node should get no traffic.
    func unready() async -> [String] {
        if cluster.readiness == .strict { return troubles }
        return isEdge && cluster.fetch == .local ? await tooOld() : []
    }

    /// Why versions do not come here, in sentences.
    private var troubles: [String] {
        let (reach, store) = problems.withLock { $0 }
        return [
            reach.map { "the cluster's log cannot be reached: \($0)" },
            store.map { "the log's versions cannot be stored: \($0)" },
        ].compactMap(\.self)
    }

    /// Why this node is not all that it should be, although it serves: sentences.
    var degraded: [String] {
        let troubles = troubles
        return troubles.isEmpty ? nodes.problem.map { ["the other nodes may not see this one: \($0)"] } ?? [] : troubles
    }

    private var problem: String? { problems.withLock { $0.reach ?? $0.store } ?? nodes.problem }

    /// Keeps what the other nodes are told, and takes in what they tell.
    private func count(_ parts: Daemon.Parts) async {
        while !Task.isCancelled {
            let presence = await parts.edge.presence()
            var record = NodeRecord()
            record.version = DaemonVersion.text
            record.settings = settings.withLock { $0 }
            record.configurationHash = Self.hash(record.settings)
            record.head = await node.follower.head
            record.addresses["control"] = cluster.advertise
            for counts in presence.counts.values {
                for (topic, transports) in counts {
                    record.topics[topic, default: 0] += Int64(transports.values.reduce(0, +))
                }
            }
            record.isEdge = isEdge
            record.isLeaving = await node.stalledFor > Self.longestStall
            record.subscribers = Int64(parts.edge.tally.streams + parts.edge.tally.polls)
            ours.withLock { $0 = record }
            tellHub(parts)
            // Cancelled: the loop ends.
            try? await Task.sleep(for: .seconds(1))
        }
    }

    private static func hash(_ settings: [String: String]) -> String {
        let text = settings.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: "\n")
        return String(SecretDigest(of: text).hexadecimal.prefix(16))
    }

    /// Windows over which clients spread their fetches are for the clients of all nodes.
    private func tellHub(_ parts: Daemon.Parts) {
        guard parts.hub.countsSubscribers else { return }
        var elsewhere: [Scope: Int] = [:]
        for binding in parts.hub.bindings {
            let count = nodes.subscribersElsewhere(binding.name)
            for scope in binding.scopes where count > 0 { elsewhere[scope, default: 0] += count }
        }
        parts.hub.count(elsewhere, of: self)
    }
}

/// A hub that is made after the node that asks it.
private final class LateHub: Sendable {
    let held = Mutex<Hub?>(nil)
}

extension ClusterParts {
    /// The body of `/v1/cluster`.
    func json() async -> JSONValue {
        let follower = await node.follower
        var object: JSONObject = [
            "name": .string(name), "node": .string(node.name), "epoch": .string(store.epoch.description),
            "head": .string(String(follower.head.sequence)), "ready": .bool(follower.isReady),
            "whole": .bool(follower.isWhole), "etcd": .array(await members.json), "nodes": .array(nodes.json),
            "logHead": .string(String(max(follower.head.sequence, await node.figures.newest))),
        ]
        object["publishId"] = follower.head.publish.map { .string($0.description) }
        object["advertise"] = cluster.advertise.map { .string($0) }
        if isEdge { object["role"] = "edge" }
        object["unverifiedSeconds"] = .double(await node.unverified / .seconds(1))
        object["problem"] = problem.map { .string($0) }
        object["charter"] = follower.logMetadata.map { logMetadata in
            [
                "format": .int(LogMetadata.format), "minimumVersion": .int(logMetadata.minimumVersion),
                "prunedBelow": .string(String(logMetadata.prunedBelow)), "frozen": .bool(logMetadata.isFrozen),
            ]
        }
        return .object(object)
    }

    /// Sends a message to the subscribers of all nodes.
    var relay: @Sendable (Messaging.Relayed) async -> Bool { { [nodes] in await nodes.send($0) } }

    /// Operations of the cluster that Control offers.
    var service: ClusterService {
        ClusterService(
            status: { [self] in await json() },
            copyAge: { [self] in await statedAge() },
            changesAt: changesAt,
            newEpoch: { [self] () async throws(ClusterService.Failure) in
                try await changed { () async throws(LogError) in try await node.renewEpoch() }
            },
            upgrade: { [self] () async throws(ClusterService.Failure) in
                try await changed { () async throws(LogError) in try await node.upgrade() }
            },
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

    private func changed(
        _ body: () async throws(LogError) -> LogMetadata
    ) async throws(ClusterService.Failure) -> JSONValue {
        do throws(LogError) {
            let logMetadata = try await body()
            return [
                "epoch": .string(logMetadata.epoch.description), "minimumVersion": .int(logMetadata.minimumVersion),
            ]
        } catch {
            if case .unknown(let sentence) = error {
                throw ClusterService.Failure(description: sentence, isUnknown: true)
            }
            throw ClusterService.Failure(description: error.description, isUnknown: false)
        }
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
