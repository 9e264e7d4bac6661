import Crypto
import Glibc
import Logging
import StalecastControl
import StalecastEtcd
import StalecastHub
import StalecastRecords
import StalecastWire
import Synchronization

/// Records that the nodes of a cluster share beside the log: living nodes, subscribers of each, messages that were sent
/// by hand, and owners of assignments.
final class ClusterNodes: Sendable {
    let board: Informer
    let assignments: AssignmentService
    let peerRequests: PeerRequests
    private let records: EtcdRecords
    private let presence: StalecastRecords.Presence
    let node: String
    let isEdge: Bool
    private let nodes = Mutex(LivingNodes())
    private let work = AssignedWork()
    private let logger: Logger
    /// Nodes that were said to be configured differently, by their hash.
    private let warned = Mutex<[String: String]>([:])
    private let isEnding = Atomic(false)

    init(_ client: EtcdClient, _ settings: Configuration.Cluster, _ logger: Logger) {
        node = settings.effectiveNode
        isEdge = settings.role == .edge
        self.logger = logger
        records = EtcdRecords(client, cluster: settings.name, kinds: isEdge ? Self.kindsOfEdges : nil)
        board = isEdge ? Informer(records, pause: .seconds(1)) : Informer(records)
        let instance = Epoch.random().description
        // An edge has no assignment that others wait for, and may be far away: its lease outlasts a short cut.
        presence = StalecastRecords.Presence(
            node: node, instance: instance, board, records, lifetime: .seconds(isEdge ? 30 : 10), clock: Self.now)
        assignments = AssignmentService(
            node: node, instance: instance, board, records, clock: Self.now,
            worker: work.worker)
        peerRequests = PeerRequests(assignments.mark, board, records)
    }

    /// Time of a clock that goes on while the machine sleeps.
    static let now: @Sendable () -> Duration = {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    typealias Body = AssignedWork.Body

    /// Work that only the node does whose assignment it is: begins when it becomes this node's, is cancelled when it is
    /// not.
    func setAssignments(_ bodies: [String: Body]) {
        work.set(bodies)
        assignments.want(work.names)
    }

    /// Sets the worker that delivers to webhooks, by these assignments; before ``setAssignments(_:)``.
    func setWebhooks(_ worker: AssignmentService.Worker, _ names: Set<String>) { work.set(webhooks: worker, names) }

    /// Hands the assignments of webhooks over: delivery ends before the rest does, and others must not wait for that.
    func endWebhooks() {
        isEnding.store(true, ordering: .relaxed)
        work.endWebhooks()
        assignments.want(work.names)
    }

    /// Until the task is cancelled; then assignments are handed over.
    ///
    /// - Parameter current: what to tell the others.
    func run(
        _ current: @escaping @Sendable () -> NodeRecord, heard: @escaping @Sendable (DataMessage) -> Void
    ) async {
        await board.observe(NodeRecord.kind) { [self] change in
            switch change {
            case .put(let record): met(NodeRecord(record.value), of: record.name.id, current())
            case .removed(let name):
                nodes.withLock { $0.heard(nil, of: name.id, now: Self.now()) }
                warned.withLock { $0[name.id] = nil }
            case .complete: break
            }
        }
        await board.observe(Self.messages) { change in
            if case .put(let record) = change, let message = Messaging.Relayed.read(record.value) { heard(message) }
        }
        // Assignments are handed over while the records can still be changed.
        let following = Task { await board.run() }
        let telling = Task {
            await presence.run { [self] in
                var record = current()
                if isEnding.load(ordering: .relaxed) { record.isLeaving = true }
                return record
            }
        }
        await withTaskCancellationHandler {
            if isEdge {
                // Cancelled: the daemon ends.
                while (try? await Task.sleep(for: .seconds(3600))) != nil {}
            } else {
                await Task { [assignments] in await assignments.run() }.value
            }
        } onCancel: {
            assignments.stop()
        }
        telling.cancel()
        await telling.value
        following.cancel()
    }

    private func met(_ record: NodeRecord, of id: String, _ ours: NodeRecord) {
        nodes.withLock { $0.heard(record, of: id, now: Self.now()) }
        let theirs = record.configurationHash
        // Before the first look at ourselves there is nothing to compare.
        guard record.isConfigured(unlike: ours), !ours.settings.isEmpty, id != node,
            warned.withLock({ $0.updateValue(theirs, forKey: id) }) != theirs
        else { return }
        logger.warning(
            "a node is configured differently",
            metadata: [
                "node": "\(id)", "in": "\(record.differences(from: ours).joined(separator: ", "))",
                "theirs": "\(theirs)", "ours": "\(ours.configurationHash)",
            ])
    }

    // MARK: What the others say

    /// Subscribers of a topic at the other nodes, as they said last.
    func subscribersElsewhere(_ topic: TopicName) -> Int {
        let all = nodes.withLock(\.nodes)
        return all.reduce(0) { $0 + ($1.key == node ? 0 : Int(clamping: $1.value.topics[topic] ?? 0)) }
    }

    /// Addresses at which core nodes take changes, as far as they advertise them and were heard of, in order.
    var coreAddresses: [String] {
        nodes.withLock(\.nodes).sorted { $0.key < $1.key }.compactMap { $1.isEdge ? nil : $1.addresses["control"] }
    }

    /// The nodes that live, besides this one.
    var others: Set<String> { nodes.withLock { Set($0.nodes.keys) }.subtracting([node]) }

    /// Lease with which this node's record lives; nil while it has none.
    var lease: RecordLease? { presence.lease }

    func grant(_ lifetime: Duration) async throws(LogError) -> RecordLease { try await records.grant(lifetime) }

    /// Why others may not see this node.
    var problem: String? { presence.problem }

    /// Nodes that live, and those of them that are configured otherwise than this one.
    var counts: (all: Int, different: Int) {
        let all = nodes.withLock(\.nodes)
        guard let ours = all[node] else { return (all.count, 0) }
        return (all.count, all.values.count { $0.isConfigured(unlike: ours) })
    }

    var json: [JSONValue] {
        let all = nodes.withLock(\.nodes)
        return all.sorted { $0.key < $1.key }.map { id, record in
            var object: JSONObject = [
                "id": .string(id), "version": .string(record.version), "head": .string(String(record.head.sequence)),
                "configurationHash": .string(record.configurationHash), "subscribers": .int(record.subscribers),
            ]
            object["advertise"] = record.addresses["control"].map { .string($0) }
            if record.isEdge { object["role"] = "edge" }
            let differences = all[node].map { record.differences(from: $0) } ?? []
            if !differences.isEmpty { object["differs"] = .array(differences.map(JSONValue.string)) }
            return .object(object)
        }
    }

    // MARK: Messages

    /// A node whose watch broke off is told when it has another within this time.
    private static let messageLifetime = Duration.seconds(5)
    private static let messages = "message"
    /// Records that an edge has a use for: nodes, keys, messages, and clients that were seen elsewhere.
    private static let kindsOfEdges: Set = [NodeRecord.kind, SharedKeys.kind, messages, ClusterPropagation.seen]

    /// Tells every node, this one as well, of a message.
    ///
    /// - Returns: false when it is not known whether they were told.
    func send(_ message: Messaging.Relayed) async -> Bool {
        do throws(LogError) {
            let lease = try await records.grant(Self.messageLifetime)
            let name = RecordName(Self.messages, Epoch.random().description)
            if case .done = try await board.put(message.encoded, to: name, over: nil, lease: lease) { return true }
            return false
        } catch {
            return false
        }
    }
}
