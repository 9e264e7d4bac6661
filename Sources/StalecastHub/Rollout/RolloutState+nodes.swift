import StalecastWire

/// Clients that other nodes of a cluster are told of.
extension RolloutState {
    /// Tells other nodes of a client that they may count.
    ///
    /// - Parameter hasLeft: it listens at this node no more, and at no other one that is known.
    mutating func sight(_ place: Int, _ scope: Scope, hasLeft: Bool = false) {
        guard let last = rollouts[scope]?.last else { return }
        let entry = table.entries[place]
        if entry.cohort & last.bit == 0 || entry.isCountedElsewhere || last.isPartial {
            tell(place, scope, hasLeft: hasLeft)
        }
    }

    mutating func tell(_ place: Int, _ scope: Scope, hasLeft: Bool = false) {
        guard sightings != nil else { return }
        let (entry, key) = (table.entries[place], table.keys[place])
        let isGuest = entry.isLive && entry.cohort & (rollouts[scope]?.last?.bit ?? 0) == 0
        sightings?.note(
            RolloutTracker.ForeignFetch(
                key: key, scope: scope, fetched: VersionNumber(clamping: Int64(entry.fetched)),
                active: VersionNumber(clamping: Int64(entry.active)),
                failed: VersionNumber(clamping: Int64(failures[key]?.version ?? 0)),
                isCounted: !entry.isCountedElsewhere, isHere: isGuest ? true : hasLeft ? false : nil))
    }
}
