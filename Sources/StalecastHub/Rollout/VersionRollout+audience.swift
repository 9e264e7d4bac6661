/// Changes of a version's audience. A client's entry says to which audiences it belongs, and the version counts them:
/// each method changes both.
extension VersionRollout {
    /// Counts the clients that are present, hear the version and have an older one.
    ///
    /// - Parameters:
    ///   - entries: all clients; those of the scope `number` are looked at.
    ///   - hears: whether the set of topics of that index has a topic of the version.
    mutating func gather(_ entries: inout [ClientTable.Entry], of number: UInt16, hears: [Bool]) {
        for place in entries.indices where entries[place].scope == number {
            entries[place].cohort &= ~bit
            entries[place].gone &= ~bit
            entries[place].fetches = 0
            let entry = entries[place]
            // A client that moved to another node is of the audience there.
            if entry.isElsewhere, !entry.isLive { continue }
            entries[place].node = 0
            guard entry.isPresent, hears[Int(entry.topics)] else { continue }
            identifiedStreams += Int(entry.streams)
            guard entry.fetched < self.number else { continue }
            entries[place].cohort |= bit
            clients.audience += 1
        }
    }

    /// A client that came later, after a restart or between two announcements.
    mutating func enter(_ entry: inout ClientTable.Entry) {
        entry.cohort |= bit
        clients.audience += 1
        identifiedStreams += entry.polls > 0 ? 0 : 1
        count(entry, 1)
    }

    mutating func move(_ entry: inout ClientTable.Entry, isIn: Bool) {
        let change = isIn ? 1 : -1
        entry.cohort ^= bit
        clients.audience += change
        identifiedStreams += change * Int(entry.streams)
        count(entry, change)
    }

    mutating func part(_ entry: inout ClientTable.Entry, wasTold: Bool) {
        entry.gone |= bit
        clients.left += 1
        if wasTold { clients.lost += 1 } else { entry.cohort &= ~bit }
    }

    /// Takes back that a client left.
    mutating func reenter(_ entry: inout ClientTable.Entry) {
        guard entry.gone & bit != 0 else { return }
        clients.left -= 1
        if entry.isLost(bit) { clients.lost -= 1 }
        entry.cohort |= bit
        entry.gone &= ~bit
    }

    mutating func recount(_ entries: [ClientTable.Entry]) {
        clients = RolloutStatus.Clients()
        identifiedStreams /= 2
        for entry in entries {
            if entry.gone & bit != 0 { clients.left += 1 }
            if entry.isLost(bit) { clients.lost += 1 }
            if (entry.gone | entry.cohort) & bit != 0 { clients.audience += 1 }
            if entry.isAwaited(bit) { count(entry, 1) }
        }
        times.fetched.recount(clients.fetched)
        times.active.recount(clients.active)
    }

    private mutating func count(_ entry: ClientTable.Entry, _ change: Int) {
        if entry.fetched >= number { clients.fetched += change }
        if entry.active >= number { clients.active += change }
    }
}
