import StalecastWire

extension RolloutState {
    /// Tells other nodes of a client that they may count.
    ///
    /// - Parameter hasLeft: it listens at this node no more, and at no other one that is known.
    mutating func sight(_ place: Int, _ scope: Scope, hasLeft: Bool = false) {
        guard let last = rollouts[scope]?.last else { return }
        let entry = table.entries[place]
        // Without an older version it is awaited nowhere.
        if hasLeft, entry.fetched >= last.number { return }
        if entry.cohort & last.bit == 0 || entry.isCountedElsewhere || last.isPartial {
            tell(place, scope, hasLeft: hasLeft)
        }
    }

    /// Tells other nodes of a client that came: it may have left one of them, or been answered there. Streams and polls
    /// come again all the time, and each sighting is written to etcd: later, only clients are told of that are behind
    /// and were away or elsewhere, or are in no audience here.
    ///
    /// - Parameter before: its entry before it came.
    mutating func tellOfArrival(_ place: Int, _ scope: Scope, before: ClientTable.Entry, at now: UInt64) {
        guard let last = rollouts[scope]?.last, !before.isLive else { return }
        let wasAway = !before.isPresent || before.isElsewhere
        let entry = table.entries[place]
        let (isBehind, isGuest) = (entry.fetched < last.number, entry.cohort & last.bit == 0)
        if now < last.startedAt + Self.fresh || isBehind && (wasAway || isGuest) { tell(place, scope) }
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
