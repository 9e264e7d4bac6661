import GRDB
package import StalecastTemplate
package import StalecastWire
import Synchronization

extension TemplateStore {
    /// Keeps a template for another person to approve, over the version that is current.
    ///
    /// - Parameter publishTime: when it shall publish itself; nil waits for an approval.
    /// - Throws: ``StoreError/tooManyProposals(_:)``, and as ``publish(_:)``.
    package func propose(
        _ publish: Publish, by author: Proposal.Person, at publishTime: Timestamp? = nil
    ) async throws(StoreError) -> Proposal {
        guard let projectNumber = projects.number(of: publish.scope.project) else {
            throw .unknownProject(publish.scope.project)
        }
        let content = publish.template.json.encoded(JSONStyle(asciiOnly: false))
        defer { scheduleChanged() }
        if let shared = sharedProposals {
            return try await shared.add(publish, content, by: author, at: publishTime, projectNumber: projectNumber)
        }
        return try await write { db in
            try self.refuseWithoutSpace()
            let make = try self.draft(of: publish, by: author, at: publishTime, projectNumber: projectNumber)
            return try ProposalTable.insert(make, content: content, of: publish.scope, now: make(0).createTime, db)
        }
    }

    /// Drafts a proposal over the current version, under a number to be given.
    func draft(
        of publish: Publish, by author: Proposal.Person, at publishTime: Timestamp?, projectNumber: UInt64
    ) throws(StoreError) -> @Sendable (Int64) -> Proposal {
        let current = currentTemplates[publish.scope]
        try NextVersion.check(publish.precondition, against: current, projectNumber: projectNumber)
        let now = configuration.now()
        let keys = TemplateDifference.changedKeys(from: current?.template ?? .empty, to: publish.template)
        return {
            Proposal(
                scope: publish.scope, number: $0, state: .open, base: current?.version ?? 0,
                baseETag: current?.etag ?? TemplateETag.of(project: projectNumber, version: 0),
                createTime: now, author: author, description: publish.description, isUrgent: publish.isUrgent,
                origin: publish.origin, changedKeys: keys, publishTime: publishTime, decision: nil)
        }
    }

    /// Makes an open proposal its scope's next version, of its author, if the version it was made over is current still.
    ///
    /// - Parameter allowsOwn: true when the proposer may approve it.
    /// - Throws: ``StoreError/unknownProposal(_:)``, ``StoreError/notOpen(_:_:)``, ``StoreError/ownProposal(_:)``, and as
    ///   ``publish(_:)``.
    package func approve(
        _ number: Int64, of scope: Scope, by person: Proposal.Person, allowsOwn: Bool
    ) async throws(StoreError) -> StoredVersion {
        defer { scheduleChanged() }
        let approval = Candidate.Approval(scope: scope, number: number, by: person, allowsOwn: allowsOwn)
        if let shared = sharedProposals { return try await shared.approve(approval) }
        return try await commit(.approve(approval))
    }

    /// Ends an open proposal.
    ///
    /// - Throws: ``StoreError/unknownProposal(_:)``, ``StoreError/notOpen(_:_:)``, and as ``publish(_:)``.
    package func reject(
        _ number: Int64, of scope: Scope, by person: Proposal.Person, reason: String
    ) async throws(StoreError) {
        defer { scheduleChanged() }
        if let shared = sharedProposals {
            return try await shared.reject(number, of: scope, by: person, reason: reason)
        }
        try await write { db in
            let now = self.configuration.now()
            _ = try ProposalTable.open(number, of: scope, now: now, db)
            let decision = Proposal.Decision(by: person, time: now, reason: reason)
            try ProposalTable.decide(number, of: scope, .rejected, decision, db)
        }
    }

    /// Notes the decision on an approved proposal whose version came by way of the log.
    func approved(_ approval: Candidate.Approval, _ decision: Proposal.Decision) async throws(StoreError) {
        let (number, scope) = (approval.number, approval.scope)
        if let shared = sharedProposals { return try await shared.approved(number, of: scope, decision) }
        try await write { db in try ProposalTable.decide(number, of: scope, .approved, decision, db) }
    }

    /// The open proposals of all scopes that publish themselves, as this store has them. Answered from memory while
    /// nothing changed.
    package func scheduledProposals() async throws(StoreError) -> [Proposal] {
        let (known, change) = proposalNotes.withLock { ($0.scheduled, $0.change) }
        let now = configuration.now()
        if let known { return known.filter { $0.expireTime > now } }
        let found = try await read { try ProposalTable.scheduled(now: now, $0) }
        proposalNotes.withLock { if $0.change == change { $0.scheduled = found } }
        return found
    }

    /// Call it after each change of the table.
    func scheduleChanged() {
        proposalNotes.withLock {
            $0.scheduled = nil
            $0.change += 1
        }
    }

    /// The scope's proposals, newest first.
    ///
    /// - Parameters:
    ///   - isOpen: only those that can be approved or rejected.
    ///   - first: nothing newer than this number.
    package func proposals(
        of scope: Scope, isOpen: Bool, from first: Int64 = .max, limit: Int
    ) async throws(StoreError) -> [Proposal] {
        let now = configuration.now()
        return try await read {
            try ProposalTable.page(of: scope, isOpen: isOpen, from: first, limit: limit, now: now, $0)
        }
    }

    /// A proposal, and its template while it is open; nil when there is none.
    package func proposal(
        _ number: Int64, of scope: Scope
    ) async throws(StoreError) -> (proposal: Proposal, template: Template?)? {
        let now = configuration.now()
        return try await read { db in
            guard let (proposal, content) = try ProposalTable.one(number, of: scope, now: now, db) else { return nil }
            return (proposal, try content.map { try Template(stored: JSONValue.parse($0)) })
        }
    }
}
