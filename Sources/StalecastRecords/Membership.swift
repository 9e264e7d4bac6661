package import StalecastWire
import Synchronization

/// Part of a node among the nodes of its cluster, beside the log: its record, the records of the others, its
/// assignments, and what nodes ask each other.
package final class Membership: Sendable {
    /// Report of a node that is configured otherwise than this one; comes once for each of its configurations.
    package struct Difference: Sendable, Hashable {
        package let node: String
        /// Names of the settings, in order.
        package let settings: [String]
        package let theirs: String
        package let ours: String
    }

    package let node: String
    package let informer: Informer
    package let assignments: AssignmentService
    package let peerRequests: PeerRequests
    private let isEdge: Bool
    private let records: any SharedRecords
    private let presence: Presence
    private let work: AssignedWork
    private let clock: @Sendable () -> Duration
    private let report: @Sendable (Difference) -> Void
    private let state = Mutex(State())

    private struct State {
        /// Record that the others are given.
        var own = NodeRecord()
        var nodes = LivingNodes()
        /// Configurations that were reported, by node.
        var reported: [String: String] = [:]
        /// Others take over the webhooks.
        var isEnding = false

        /// Takes a node's record.
        ///
        /// - Returns: a difference that was not reported yet.
        mutating func met(_ record: NodeRecord, of id: String, isOwn: Bool, now: Duration) -> Difference? {
            nodes.heard(record, of: id, now: now)
            // Before the first look at ourselves there is nothing to compare.
            guard !isOwn, !own.settings.isEmpty, record.isConfigured(unlike: own),
                reported.updateValue(record.configurationHash, forKey: id) != record.configurationHash
            else { return nil }
            return Difference(
                node: id, settings: record.differences(from: own), theirs: record.configurationHash,
                ours: own.configurationHash)
        }
    }

    /// - Parameters:
    ///   - isEdge: true for a node that has no assignments, and may be far away: its record outlasts a short cut.
    ///   - clock: goes on while the machine sleeps.
    package init(
        _ node: String, isEdge: Bool = false, _ records: any SharedRecords, clock: @escaping @Sendable () -> Duration,
        report: @escaping @Sendable (Difference) -> Void
    ) {
        (self.node, self.isEdge, self.records, self.clock, self.report) = (node, isEdge, records, clock, report)
        let instance = Epoch.random().description
        let informer = isEdge ? Informer(records, pause: .seconds(1)) : Informer(records)
        let work = AssignedWork()
        presence = Presence(
            node: node, instance: instance, informer, records, lifetime: .seconds(isEdge ? 30 : 10), clock: clock)
        assignments = AssignmentService(
            node: node, instance: instance, informer, records, clock: clock, worker: work.worker)
        peerRequests = PeerRequests(assignments.mark, informer, records)
        (self.informer, self.work) = (informer, work)
    }

    // MARK: This node

    /// Changes this node's record, which the other nodes read.
    package func update(_ change: (inout NodeRecord) -> Void) { state.withLock { change(&$0.own) } }

    /// Lease with which this node's record lives; nil while it has none.
    package var lease: RecordLease? { presence.lease }

    /// Grants a lease of its own to records that should not live as long as the node.
    package func grant(_ lifetime: Duration) async throws(LogError) -> RecordLease { try await records.grant(lifetime) }

    /// Reason why other nodes may not see this node; nil when they should.
    package var problem: String? { presence.problem }

    /// Sets the work that only the node does whose assignment it is: it begins when the assignment becomes this node's,
    /// and is cancelled when it is not any more.
    package func setAssignments(_ bodies: [String: AssignedWork.Body]) {
        work.set(bodies)
        assignments.want(work.names)
    }

    /// Sets the worker that delivers to webhooks, by these assignments; before ``setAssignments(_:)``.
    package func setWebhooks(_ worker: AssignmentService.Worker, _ names: Set<String>) {
        work.set(webhooks: worker, names)
    }

    /// Hands the assignments of webhooks over: delivery ends before the rest does, and others must not wait for that.
    package func endWebhooks() {
        state.withLock { $0.isEnding = true }
        work.endWebhooks()
        assignments.want(work.names)
    }

    // MARK: The other nodes

    /// Nodes that live, besides this one.
    package var others: Set<String> { Set(nodes.keys).subtracting([node]) }

    /// Subscribers of a topic at the other nodes, as they said last.
    package func subscribersElsewhere(_ topic: TopicName) -> Int {
        nodes.reduce(0) { $0 + ($1.key == node ? 0 : Int(clamping: $1.value.topics[topic] ?? 0)) }
    }

    /// Addresses at which core nodes take changes, as far as they advertise them and were heard of, in order.
    package var coreAddresses: [String] {
        nodes.sorted { $0.key < $1.key }.compactMap { $1.isEdge ? nil : $1.addresses["control"] }
    }

    /// Nodes that live, and those of them that are configured otherwise than this one.
    package var counts: (all: Int, different: Int) {
        let all = nodes
        guard let own = all[node] else { return (all.count, 0) }
        return (all.count, all.values.count { $0.isConfigured(unlike: own) })
    }

    private var nodes: [String: NodeRecord] { state.withLock { $0.nodes.nodes } }

    /// Nodes as the API lists them.
    package var json: [JSONValue] {
        let all = nodes
        return all.sorted { $0.key < $1.key }.map { id, record in
            let differences = all[node].map { record.differences(from: $0) } ?? []
            return [
                "id": .string(id), "version": .string(record.version), "head": .string(String(record.head.sequence)),
                "configurationHash": .string(record.configurationHash), "subscribers": .int(record.subscribers),
                "advertise": record.addresses["control"].map { .string($0) }, "role": record.isEdge ? "edge" : nil,
                "etcdDelaySeconds": record.etcdDelayMs.map { .double(Double($0) / 1000) },
                "unverifiedSeconds": record.unverifiedSeconds.map { .int($0) },
                "differs": differences.isEmpty ? nil : .array(differences.map(JSONValue.string)),
            ]
        }
    }

    /// Nodes that were cut off or ended in the last hour, as the API lists them.
    package var goneJSON: [JSONValue] {
        let now = clock()
        let gone = state.withLock { $0.nodes.gone(at: now) }
        return gone.sorted { $0.key < $1.key }.map { id, last in
            [
                "id": .string(id), "head": .string(String(last.record.head.sequence)),
                "goneSeconds": .int((now - last.since).components.seconds),
                "advertise": last.record.addresses["control"].map { .string($0) },
                "role": last.record.isEdge ? "edge" : nil,
            ]
        }
    }

    // MARK: Running

    /// Follows the others and keeps this node's record until the task is cancelled, then hands its assignments over.
    package func run() async {
        await informer.observe(NodeRecord.kind) { [self] in take($0) }
        // Cancellation must not reach these at once: assignments are handed over while the records can be changed, and
        // the record goes after them. Each is ended and waited for here.
        let following = Task { await informer.run() }
        let telling = Task { await presence.run { [self] in record } }
        let working = isEdge ? nil : Task { await assignments.run() }
        let (ended, end) = AsyncStream.makeStream(of: Void.self)
        await withTaskCancellationHandler {
            for await _ in ended {}
        } onCancel: {
            end.finish()
        }
        assignments.stop()
        await working?.value
        telling.cancel()
        await telling.value
        following.cancel()
        await following.value
    }

    private var record: NodeRecord {
        state.withLock { state in
            var record = state.own
            if state.isEnding { record.isLeaving = true }
            return record
        }
    }

    private func take(_ change: Informer.Change) {
        switch change {
        case .put(let record):
            let id = record.name.id
            let difference = state.withLock {
                $0.met(NodeRecord(record.value), of: id, isOwn: id == node, now: clock())
            }
            if let difference { report(difference) }
        case .removed(let name):
            state.withLock { state in
                state.nodes.heard(nil, of: name.id, now: clock())
                state.reported[name.id] = nil
            }
        case .complete: break
        }
    }
}
