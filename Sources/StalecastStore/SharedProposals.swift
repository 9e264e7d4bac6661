package import StalecastWire
import Synchronization

/// Records in which the nodes of a cluster share their proposals. What they put is in the store's own table when they
/// return, and soon at every other node.
package struct SharedProposals: Sendable {
    package typealias Make = @Sendable (Int64) -> Proposal
    /// Throws where the proposal as it is must not be changed.
    package typealias Edit = @Sendable (inout Proposal) throws(StoreError) -> Void

    /// Keeps a new one, with its content, under the next number of its scope.
    let add: @Sendable (Scope, _ content: [UInt8], @escaping Make) async throws(StoreError) -> Proposal
    /// Compares and sets: the edit is made of what all nodes agree on, anew when another node was quicker.
    let change: @Sendable (Int64, Scope, @escaping Edit) async throws(StoreError) -> Proposal
    /// The identity in the log of what is published under an idempotency key.
    let publish: @Sendable (_ key: String) -> String

    package init(
        add: @escaping @Sendable (Scope, _ content: [UInt8], @escaping Make) async throws(StoreError) -> Proposal,
        change: @escaping @Sendable (Int64, Scope, @escaping Edit) async throws(StoreError) -> Proposal,
        publish: @escaping @Sendable (_ key: String) -> String
    ) {
        self.add = add
        self.change = change
        self.publish = publish
    }
}

extension TemplateStore {
    /// An approval under way holds off others for so long, and a rejection until the log is not asked for it any more.
    /// A later approval uses the same publish: it lands once.
    private static let approvalPatience = Duration.seconds(60)
    private static let rejectionPatience = Duration.seconds(660)

    /// Makes the proposals, from now on, those of all nodes.
    package func share(_ proposals: SharedProposals) { sharedProposals.withLock { $0 = proposals } }

    /// A proposal as all nodes have it.
    ///
    /// - Parameter content: of an open one.
    package func mirror(_ proposal: Proposal, content: [UInt8]?) async throws(StoreError) {
        let now = configuration.now()
        // A claim's age begins when it comes here.
        _ = age(of: proposal)
        defer { scheduleChanged() }
        try await write { db in try ProposalTable.mirror(proposal, content: content, now: now, db) }
    }

    /// The highest number in this store's own table; 0: none.
    package func lastProposal(of scope: Scope) async throws(StoreError) -> Int64 {
        try await read { db in try ProposalTable.last(of: scope, db) }
    }

    private func age(of proposal: Proposal) -> Duration? {
        let now = configuration.uptime()
        return proposalNotes.withLock { $0.claims.age(of: proposal, now: now) }
    }

    func approve(
        _ approval: Candidate.Approval, _ shared: SharedProposals
    ) async throws(StoreError) -> StoredVersion {
        let now = configuration.now()
        let former = Mutex<Timestamp?>(nil)
        let claimed = try await shared.change(approval.number, approval.scope) { proposal throws(StoreError) in
            try proposal.mustBeOpen(now, self.age(of: proposal), freeFor: Self.approvalPatience)
            if !approval.allowsOwn, approval.by.principal == proposal.author.principal {
                throw .ownProposal(proposal.number)
            }
            former.withLock { [since = proposal.approvingSince] in $0 = since }
            proposal.approvingSince = now
        }
        var approval = approval
        approval.key = claimed.approvalKey
        do throws(StoreError) {
            return try await commit(.approve(approval))
        } catch {
            // Of an unknown outcome the claim stays: it may land yet.
            if case .outcomePending = error { throw error }
            do throws(StoreError) {
                _ = try await shared.change(approval.number, approval.scope) { proposal in
                    // The one before may land yet.
                    if proposal.approvingSince == now { proposal.approvingSince = former.withLock(\.self) }
                }
            } catch {
                log(LogLine(.warning, "an approval's claim stays for a minute", ["error": error.description]))
            }
            throw error
        }
    }

    func rejectShared(
        _ number: Int64, of scope: Scope, by person: Proposal.Person, reason: String, _ shared: SharedProposals
    ) async throws(StoreError) {
        try await mustNotBePublished(number, of: scope, shared)
        let now = configuration.now()
        _ = try await shared.change(number, scope) { proposal throws(StoreError) in
            try proposal.mustBeOpen(now, self.age(of: proposal), freeFor: Self.rejectionPatience)
            proposal.state = .rejected
            proposal.decision = Proposal.Decision(by: person, time: now, reason: reason)
            proposal.approvingSince = nil
        }
    }

    /// Refuses a decision about an approval that may be published: its node could not report the outcome, and the log
    /// knows it.
    ///
    /// - Throws: ``StoreError/notOpen(_:_:)``; ``StoreError/unavailable(_:)`` when the log cannot be asked.
    private func mustNotBePublished(
        _ number: Int64, of scope: Scope, _ shared: SharedProposals
    ) async throws(StoreError) {
        let proposal = try await shared.change(number, scope) { _ in }
        guard proposal.state == .open else { return }
        if let authority = authority.withLock({ $0 }), await !authority.refresh() {
            throw .unavailable("nobody can say now whether proposal \(number) was published; nothing was changed")
        }
        guard let made = try await made(by: shared.publish(proposal.approvalKey)) else { return }
        // Who approved it was told to that node only.
        let decision = Proposal.Decision(
            by: Proposal.Person(principal: "unknown", user: UpdateUser()),
            time: made.version?.metadata.updateTime ?? configuration.now(), version: made.number)
        _ = try await shared.change(number, scope) { proposal in
            guard proposal.state == .open else { return }
            (proposal.state, proposal.decision, proposal.approvingSince) = (.approved, decision, nil)
        }
        throw .notOpen(number, .approved)
    }
}

extension Proposal {
    /// Key that is the same at every node: approvals of the proposal are one publish.
    fileprivate var approvalKey: String { "proposal \(scope) \(number) \(createTime.microseconds)" }

    /// - Parameters:
    ///   - age: of an approval under way; nil: there is none.
    ///   - patience: the approval must be older.
    fileprivate func mustBeOpen(
        _ now: Timestamp, _ age: Duration?, freeFor patience: Duration
    ) throws(StoreError) {
        guard state == .open else { throw .notOpen(number, state) }
        guard expireTime > now else { throw .notOpen(number, .expired) }
        if let age, age < patience {
            throw .unavailable("proposal \(number) is being approved at this moment; look at it again")
        }
    }
}
