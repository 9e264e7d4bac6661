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
    private struct Place: Hashable {
        let scope: Scope
        let number: Int64
    }

    private var seen: [Place: (claim: Timestamp, at: Duration)] = [:]

    /// - Returns: nil for a proposal that is not being approved.
    mutating func age(of proposal: Proposal, now: Duration) -> Duration? {
        let place = Place(scope: proposal.scope, number: proposal.number)
        guard proposal.state == .open, let claim = proposal.approvingSince else {
            seen[place] = nil
            return nil
        }
        if let known = seen[place], known.claim == claim { return now - known.at }
        seen[place] = (claim, now)
        return .zero
    }
}
