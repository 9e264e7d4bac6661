import GRDB
import StalecastWire

/// Storage of proposals: this store's own table, or what all nodes of a cluster share.
protocol ProposalStorage: Sendable {
    func add(
        _ publish: Publish, _ content: [UInt8], by author: Proposal.Person, at publishTime: Timestamp?,
        projectNumber: UInt64
    ) async throws(StoreError) -> Proposal
    func approve(_ approval: Candidate.Approval) async throws(StoreError) -> StoredVersion
    func reject(
        _ number: Int64, of scope: Scope, by person: Proposal.Person, reason: String
    ) async throws(StoreError)
    /// Notes the decision on an approved proposal whose version came by way of the log.
    func approved(_ number: Int64, of scope: Scope, _ decision: Proposal.Decision) async throws(StoreError)
}

/// Proposals of a store that is one by itself: an approval and its version are one transaction.
struct OwnProposals: ProposalStorage {
    let store: TemplateStore

    func add(
        _ publish: Publish, _ content: [UInt8], by author: Proposal.Person, at publishTime: Timestamp?,
        projectNumber: UInt64
    ) async throws(StoreError) -> Proposal {
        try await store.write { db in
            try store.refuseWithoutSpace()
            let make = try store.draft(of: publish, by: author, at: publishTime, projectNumber: projectNumber)
            return try ProposalTable.insert(make, content: content, of: publish.scope, now: make(0).createTime, db)
        }
    }

    func approve(_ approval: Candidate.Approval) async throws(StoreError) -> StoredVersion {
        try await store.commit(.approve(approval))
    }

    func reject(
        _ number: Int64, of scope: Scope, by person: Proposal.Person, reason: String
    ) async throws(StoreError) {
        try await store.write { db in
            let now = store.configuration.now()
            _ = try ProposalTable.open(number, of: scope, now: now, db)
            let decision = Proposal.Decision(by: person, time: now, reason: reason)
            try ProposalTable.decide(number, of: scope, .rejected, decision, db)
        }
    }

    func approved(_ number: Int64, of scope: Scope, _ decision: Proposal.Decision) async throws(StoreError) {
        try await store.write { db in try ProposalTable.decide(number, of: scope, .approved, decision, db) }
    }
}
