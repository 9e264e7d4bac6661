package import StalecastWire

/// Counts of the clients of a staged version so far, over all its stages.
///
/// In a cluster each client that has the newest version is counted by one node among ``fetched`` and ``failed``: nodes tell
/// each other of clients that several of them may have answered, within a second or two. A client that listens at two nodes at
/// once counts at both, as often as it is told: only a table of all clients at every node could tell.
package struct ReleaseClients: SharedCounts, Sendable, Hashable {
    /// Identified clients that fetched the version or a newer one.
    package var fetched = 0
    /// Clients among these that report that they could not activate it, and did not since.
    package var failed = 0
    /// Identified clients that were told and are still there; of stages only that had enough time to fetch.
    package var told = 0
    /// Clients among ``told`` that have not fetched.
    package var silent = 0
    /// Fetches answered since its first stage, of all clients of the scope.
    package var answers = 0
    /// Fetches refused since then for no fault of the client's.
    package var errors = 0
    /// Streaming clients that its stages reached so far, for people: unlike ``told`` also those of the newest stage, and
    /// unlike ``fetched`` none that only fetches.
    package var reach = Reach()

    /// Identified clients that were told and are still there, and how many of these fetched and failed: never more.
    package struct Reach: Sendable, Hashable {
        package var told = 0
        package var fetched = 0
        package var failed = 0

        package init() {}

        package var json: JSONValue { ["told": .int(told), "fetched": .int(fetched), "failed": .int(failed)] }
    }

    package init() {}

    package static let counts: [any WritableKeyPath<Self, Int> & Sendable] = [
        \.fetched, \.failed, \.told, \.silent, \.answers, \.errors, \.reach.told, \.reach.fetched, \.reach.failed,
    ]
    /// Counts before ``reach``, of which a node of an older program says nothing.
    package static let leastCounts = 6
}

extension RolloutTracker {
    /// Seconds after the fetch window in which a client must have fetched, or else is silent.
    private static let patience = 60.0

    /// Counts of the clients of a staged version so far.
    package func clients(ofRelease version: VersionNumber, in scope: Scope) -> ReleaseClients {
        read { versions, now in
            var clients = versions.clients(having: version, in: scope)
            for (place, rollout) in (versions.rollouts[scope] ?? []).enumerated() where rollout.version == version {
                let stage = versions.propagation(scope, place, at: now)
                clients.answers += stage.fetches.answers
                clients.errors += stage.fetches.errors
                clients.reach.told += stage.clients.awaited
                clients.reach.fetched += stage.clients.fetched
                clients.reach.failed += stage.clients.failed
                guard stage.ageSeconds >= Double(stage.fetches.windowMs) / 1000 + Self.patience else { continue }
                clients.told += stage.clients.awaited
                clients.silent += stage.clients.behind
            }
            return clients
        }
    }
}

extension RolloutState {
    fileprivate func clients(having version: VersionNumber, in scope: Scope) -> ReleaseClients {
        var clients = ReleaseClients()
        guard let number = names.number(known: scope) else { return clients }
        let wanted = UInt32(clamping: version.rawValue)
        func has(_ entry: ClientTable.Entry) -> Bool {
            entry.scope == number && entry.fetched >= wanted && !entry.isCountedElsewhere
        }
        clients.fetched = table.entries.count(where: has) * table.weight
        clients.failed =
            failures.all.count { key, failure in
                guard failure.version >= wanted, let place = table.place(of: key) else { return false }
                return has(table.entries[place]) && table.entries[place].active < wanted
            } * table.weight
        return clients
    }
}
