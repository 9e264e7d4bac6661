import Synchronization

/// Keeps this node's record while the node lives: under a lease, rewritten only when something is different, and not
/// more often than every few seconds.
package final class Presence: Sendable {
    private struct State {
        var lease: RecordLease?
        var renewed: Duration = .zero
        var written: (value: [UInt8], isLeaving: Bool, at: Duration)?
        /// Time when another daemon with this node's id was seen last.
        var rivalSeen: Duration?
        var problem: String?
        /// The store answered the last call.
        var isReached = true
    }

    /// A rival is told of for so long.
    private static let rivalry = Duration.seconds(60)

    private let name: RecordName
    private let instance: String
    private let informer: Informer
    private let records: any SharedRecords
    private let lifetime: Duration
    private let spacing: Duration
    private let clock: @Sendable () -> Duration
    private let state = Mutex(State())

    /// - Parameters:
    ///   - instance: of this run of the program, unlike any other's.
    ///   - lifetime: of the record after the node's death; default 10 s, whole seconds, renewed at a third.
    ///   - spacing: between two writes; default 5 s.
    ///   - clock: goes on while the machine sleeps.
    package init(
        node: String, instance: String, _ informer: Informer, _ records: any SharedRecords,
        lifetime: Duration = .seconds(10), spacing: Duration = .seconds(5), clock: @escaping @Sendable () -> Duration
    ) {
        name = RecordName(NodeRecord.kind, node)
        (self.instance, self.informer, self.records) = (instance, informer, records)
        (self.lifetime, self.spacing, self.clock) = (lifetime, spacing, clock)
    }

    /// Reason why other nodes may not see this node; nil when they should.
    package var problem: String? { state.withLock { $0.problem } }

    /// Lease of its record; nil where there is none, or where it may have ended.
    package var lease: RecordLease? {
        state.withLock { state in state.lease.flatMap { clock() < state.renewed + lifetime ? $0 : nil } }
    }

    /// Announces the node until its task is cancelled, then takes the record away.
    package func run(_ current: @escaping @Sendable () -> NodeRecord) async {
        while !Task.isCancelled {
            do throws(LogError) {
                try await tend(current())
                state.withLock { $0.isReached = true }
            } catch  where !Task.isCancelled {
                state.withLock { ($0.problem, $0.isReached) = (error.description, false) }
            } catch {
                // Cancelled: the loop ends.
                break
            }
            // Cancelled: the loop ends.
            try? await Task.sleep(for: lifetime / 10)
        }
        // If etcd does not answer, the lease ends by itself, so an etcd that was out of reach a moment ago is not
        // waited for.
        let (lease, isReached) = state.withLock { ($0.lease, $0.isReached) }
        guard let lease, isReached else { return }
        // Waited for here. A call of this task, which is cancelled, would not be made.
        await Task { [records] in try? await records.revoke(lease) }.value
    }

    private func tend(_ current: NodeRecord) async throws(LogError) {
        let lease = try await leased()
        var record = current
        record.instance = instance
        let (value, stored) = (record.encoded, await informer.record(name))
        let isOthers = stored.map { NodeRecord($0.value).instance != instance } ?? false
        let written = state.withLock { $0.written }
        // A node that leaves or comes back changes the owners of assignments: the others must know at once.
        let isDue =
            written.map { written in
                let isUrgent = written.isLeaving != record.isLeaving
                return written.value != value && (isUrgent || written.at + spacing <= clock())
            } ?? true
        // After a restart the previous run's record is there for a while; it is a rival only after this run has written
        // its own.
        if isOthers, written != nil { state.withLock { $0.rivalSeen = clock() } }
        if isDue || stored == nil || isOthers {
            let outcome = try await informer.put(value, to: name, over: stored?.revision, lease: lease)
            if case .done = outcome { state.withLock { $0.written = (value, record.isLeaving, clock()) } }
        }
        let now = clock()
        state.withLock { state in
            let isRival = state.rivalSeen.map { now < $0 + Self.rivalry } ?? false
            state.problem =
                isRival ? "another daemon has the node id \(name.id): is its data directory a copy of this one's?" : nil
        }
    }

    private func leased() async throws(LogError) -> RecordLease {
        let (known, renewed) = state.withLock { ($0.lease, $0.renewed) }
        let sent = clock()
        if let known {
            if sent < renewed + lifetime / 3 { return known }
            if try await records.renew(known) {
                state.withLock { $0.renewed = sent }
                return known
            }
        }
        // The record went with the lease that has ended: it has to be written again.
        state.withLock { ($0.lease, $0.written) = (nil, nil) }
        let lease = try await records.grant(lifetime)
        state.withLock { ($0.lease, $0.renewed) = (lease, sent) }
        return lease
    }
}
