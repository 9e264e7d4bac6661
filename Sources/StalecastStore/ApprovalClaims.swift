import StalecastWire

/// Facts about the proposals of a store that are kept in memory.
struct ProposalNotes: Sendable {
    /// Open ones that publish themselves; nil: they have to be read.
    var scheduled: [Proposal]?
    /// Number of the last change of the table.
    var change = 0
}

/// Time that approvals of shared proposals have been under way, by this node's own clock since it first saw them: the
/// wall clocks of two nodes may be an hour apart.
struct ApprovalClaims: Sendable {
    private var seen: [Proposal.ID: (claim: Timestamp, at: Duration)] = [:]

    /// - Returns: nil for a proposal that is not being approved.
    mutating func age(of proposal: Proposal, now: Duration) -> Duration? {
        guard proposal.state == .open, let claim = proposal.approvingSince else {
            seen[proposal.id] = nil
            return nil
        }
        if let known = seen[proposal.id], known.claim == claim { return now - known.at }
        seen[proposal.id] = (claim, now)
        return .zero
    }
}
