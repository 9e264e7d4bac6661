import Synchronization

/// Work that exactly one node of the cluster does. The service takes the assignments that this node should have, keeps
/// them while their lease lasts, and gives them away. A node owns an assignment when it has created the record
/// `duty/<name>`; the revision of that creation is the ownership's token.
package final class AssignmentService: Sendable {
    /// Functions that do the work. Calls come one after the other; `begin` and `lost` must be quick.
    package struct Worker: Sendable {
        /// The assignment is this node's under this token.
        package var begin: @Sendable (String, AssignmentLease.Token) -> Void
        /// Starts no more work, finishes what is under way and stores what the successor needs. When it returns,
        /// another node may take the assignment.
        package var finish: @Sendable (String, AssignmentLease.Token) async -> Void
        /// Starts no more work, because another node may own the assignment. May be called while `finish` runs.
        package var lost: @Sendable (String) -> Void

        package init(
            begin: @escaping @Sendable (String, AssignmentLease.Token) -> Void,
            finish: @escaping @Sendable (String, AssignmentLease.Token) async -> Void,
            lost: @escaping @Sendable (String) -> Void
        ) {
            (self.begin, self.finish, self.lost) = (begin, finish, lost)
        }
    }

    package static let kind = "duty"

    private let informer: Informer
    private let records: any SharedRecords
    private let worker: Worker
    private let lease: AssignmentLease
    private let clock: @Sendable () -> Duration
    /// `<node> <instance>`: what its records hold.
    package let mark: String
    private let state: Mutex<Assignments>
    private let wakes: (stream: AsyncStream<Void>, continuation: AsyncStream<Void>.Continuation)

    /// - Parameters:
    ///   - instance: of this run of the program, unlike any other's.
    ///   - lease: its lifetime is whole seconds.
    ///   - clock: goes on while the machine sleeps.
    package init(
        node: String, instance: String, _ informer: Informer, _ records: any SharedRecords,
        lease: AssignmentLease = AssignmentLease(), calm: Duration = .seconds(10),
        clock: @escaping @Sendable () -> Duration,
        worker: Worker
    ) {
        (self.informer, self.records, self.worker, self.lease, self.clock) = (informer, records, worker, lease, clock)
        mark = "\(node) \(instance)"
        state = Mutex(Assignments(node: node, lease: lease, calm: calm))
        wakes = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    }

    // MARK: Questions

    /// The token under which an attempt that takes at most `timeout` may begin now; nil: it must not.
    package func permit(_ name: String, _ timeout: Duration) -> AssignmentLease.Token? {
        state.withLock { $0.permit(name, timeout, now: clock()) }
    }

    /// nil: it is not this node's, or no longer for sure.
    package func owned(_ name: String) -> AssignmentLease.Token? { permit(name, .zero) }

    package var figures: Assignments.Figures { state.withLock { $0.figures(now: clock()) } }

    /// Writes what a successor needs; false when the ownership has ended.
    package func keep(_ kept: [UInt8], of name: String, token: AssignmentLease.Token) async throws(LogError) -> Bool {
        try await records.keep(kept, of: RecordName(Self.kind, name), token: token)
    }

    /// Document that was stored last, by whichever node.
    package func kept(of name: String) async throws(LogError) -> [UInt8]? {
        try await records.kept(of: RecordName(Self.kind, name))
    }

    /// The node that an assignment's record names, by the record's value.
    package static func holder(_ value: [UInt8]) -> String {
        String(String(decoding: value, as: UTF8.self).prefix { $0 != " " })
    }

    // MARK: What to do

    /// Sets the assignments that there are from now on.
    package func want(_ names: Set<String>) { tell { $0.wanted(names) } }

    /// Hands everything over; ``run()`` ends when it is done.
    package func stop() { tell { $0.stop() } }

    private func tell(_ fact: (inout Assignments) -> Void) {
        state.withLock { fact(&$0) }
        wakes.continuation.yield()
    }

    /// Works until ``stop()`` is done; a cancelled task leaves the lease to its end. Once.
    package func run() async {
        await observe()
        await withDiscardingTaskGroup { group in
            group.addTask { await self.keepLease() }
            for await _ in wakes.stream {
                let (actions, hasStopped) = state.withLock { ($0.due(now: clock()), $0.hasStopped) }
                for action in actions { carryOut(action, &group) }
                if hasStopped { break }
            }
            group.cancelAll()
        }
        guard let lease = state.withLock({ $0.hasStopped ? $0.lease : nil }) else { return }
        // If it is not done, the lease ends by itself; it holds nothing.
        try? await records.revoke(lease)
    }

    private func observe() async {
        await informer.observe(Self.kind) { [self] change in
            switch change {
            case .put(let record):
                let isOurs = record.value == Array(mark.utf8)
                tell { $0.stored(record.name.id, record.creation, isOurs: isOurs) }
            case .removed(let name): tell { $0.stored(name.id, nil, isOurs: false) }
            case .complete: break
            }
        }
        await informer.observe(NodeRecord.kind) { [self] change in
            switch change {
            case .put(let record):
                tell { $0.heard(NodeRecord(record.value), of: record.name.id, now: clock()) }
            case .removed(let name): tell { $0.heard(nil, of: name.id, now: clock()) }
            case .complete: break
            }
        }
    }

    private func carryOut(_ action: Assignments.Action, _ group: inout DiscardingTaskGroup) {
        switch action {
        case .take(let name, let lease): group.addTask { await self.take(name, lease) }
        case .begin(let name, let token): worker.begin(name, token)
        case .lost(let name): worker.lost(name)
        case .giveUp(let name, let token):
            group.addTask {
                // The record goes only after the work has ended: its removal lets the next owner begin.
                await self.worker.finish(name, token)
                await self.remove(name, token)
            }
        case .discard(let name, let token): group.addTask { await self.remove(name, token) }
        }
    }

    private func take(_ name: String, _ lease: RecordLease) async {
        var token: AssignmentLease.Token?
        // After a failure the next look at the assignments tells what to do.
        if case .done(let record?, _)? = try? await informer.put(
            Array(mark.utf8), to: RecordName(Self.kind, name), over: nil, lease: lease)
        {
            token = record.creation
        }
        guard let token else { return state.withLock { $0.notTaken(name) } }
        tell { $0.taken(name, token, under: lease) }
    }

    private func remove(_ name: String, _ token: AssignmentLease.Token) async {
        let assignment = RecordName(Self.kind, name)
        if let record = await informer.record(assignment), record.creation == token {
            do throws(LogError) { _ = try await informer.remove(assignment, at: record.revision) } catch {
                // It goes with the lease; until then it is tried again.
                try? await Task.sleep(for: lease.renewal / 10)
            }
        }
        tell { $0.gaveUp(name) }
    }

    // MARK: The lease

    private func keepLease() async {
        var due: Duration?
        while !Task.isCancelled {
            let sent = clock()
            if sent >= due ?? sent, await renew() { due = sent + lease.renewal }
            wakes.continuation.yield()
            // Cancelled: the loop ends.
            try? await Task.sleep(for: lease.renewal / 10)
        }
    }

    /// - Returns: whether the store answered.
    private func renew() async -> Bool {
        // Counts from before the request, so that the lease ends here before it ends at the store.
        let sent = clock()
        do throws(LogError) {
            if let known = state.withLock({ $0.lease }) {
                if try await records.renew(known) {
                    tell { $0.renewed(known, sent: sent) }
                    return true
                }
                tell { $0.leaseEnded() }
            }
            let new = try await records.grant(lease.lifetime)
            tell { $0.renewed(new, sent: sent) }
            return true
        } catch {
            return false
        }
    }
}
