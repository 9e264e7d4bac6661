import StalecastRecords
import StalecastTemplate
import StalecastWire

extension SharedProposals {
    /// An approval under way holds off others for so long, and a rejection until the log is not asked for it any more.
    /// A later approval uses the same publish: it lands once.
    private static let approvalPatience = Duration.seconds(60)
    private static let rejectionPatience = Duration.seconds(660)

    func add(
        _ publish: Publish, _ content: [UInt8], by author: Proposal.Person, at publishTime: Timestamp?,
        projectNumber: UInt64
    ) async throws(StoreError) -> Proposal {
        // A copy that is behind would refuse, or let through, what is not so.
        await store.authority?.refresh()
        let make = try store.draft(of: publish, by: author, at: publishTime, projectNumber: projectNumber)
        return try await add(publish.scope, content, make)
    }

    func approve(_ approval: Candidate.Approval) async throws(StoreError) -> StoredVersion {
        let now = store.configuration.now()
        var former: Timestamp?
        let claimed = try await change(approval.number, of: approval.scope) { proposal throws(StoreError) in
            try proposal.mustBeOpen(now, age(of: proposal), freeFor: Self.approvalPatience)
            if !approval.allowsOwn, approval.by.principal == proposal.author.principal {
                throw .ownProposal(proposal.number)
            }
            former = proposal.approvingSince
            proposal.approvingSince = now
        }
        var approval = approval
        // All nodes use this key, so the proposal becomes one version at most.
        approval.key = claimed.approvalKey
        do throws(StoreError) {
            return try await store.commit(.approve(approval))
        } catch {
            // The claim stays while the outcome is unknown: the approval may land yet.
            if case .outcomePending = error { throw error }
            do throws(StoreError) {
                _ = try await change(approval.number, of: approval.scope) { proposal in
                    // The one before may land yet.
                    if proposal.approvingSince == now { proposal.approvingSince = former }
                }
            } catch {
                store.log(.warning, "an approval's claim stays for a minute", ["error": error.description])
            }
            throw error
        }
    }

    func reject(
        _ number: Int64, of scope: Scope, by person: Proposal.Person, reason: String
    ) async throws(StoreError) {
        // An approval whose outcome was unknown may have landed.
        try await mustNotBePublished(number, of: scope)
        let now = store.configuration.now()
        _ = try await change(number, of: scope) { proposal throws(StoreError) in
            try proposal.mustBeOpen(now, age(of: proposal), freeFor: Self.rejectionPatience)
            proposal.state = .rejected
            proposal.decision = Proposal.Decision(by: person, time: now, reason: reason)
            proposal.approvingSince = nil
        }
    }

    /// Refuses a decision about an approval that may be published: its node could not report the outcome, and the log
    /// knows it.
    ///
    /// - Throws: ``StoreError/notOpen(_:_:)``; ``StoreError/unavailable(_:)`` when the log cannot be asked.
    private func mustNotBePublished(_ number: Int64, of scope: Scope) async throws(StoreError) {
        let proposal = try await change(number, of: scope) { _ in }
        guard proposal.state == .open else { return }
        if let authority = store.authority, await !authority.refresh() {
            throw .unavailable("it is not known now whether proposal \(number) was published; nothing was changed")
        }
        guard let made = try await store.made(by: PublishID(of: proposal.approvalKey).description) else { return }
        // The approver's name was told to that node only.
        let decision = Proposal.Decision(
            by: Proposal.Person(principal: "unknown", user: UpdateUser()),
            time: made.version?.metadata.updateTime ?? store.configuration.now(), version: made.number)
        try await approved(number, of: scope, decision)
        throw .notOpen(number, .approved)
    }

    func approved(_ number: Int64, of scope: Scope, _ decision: Proposal.Decision) async throws(StoreError) {
        _ = try await change(number, of: scope) { proposal in
            guard proposal.state == .open else { return }
            (proposal.state, proposal.decision, proposal.approvingSince) = (.approved, decision, nil)
        }
    }
}

extension TemplateStore {
    /// A proposal as all nodes have it.
    ///
    /// - Parameter content: of an open one.
    func mirror(_ proposal: Proposal, content: [UInt8]?) async throws(StoreError) {
        let now = configuration.now()
        defer { scheduleChanged() }
        try await write { db in try ProposalTable.mirror(proposal, content: content, now: now, db) }
    }

    /// The highest number in this store's own table; 0: none.
    func lastProposal(of scope: Scope) async throws(StoreError) -> Int64 {
        try await read { db in try ProposalTable.last(of: scope, db) }
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
