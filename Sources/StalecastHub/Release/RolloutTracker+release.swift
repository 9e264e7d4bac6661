package import StalecastWire

/// Counts of the clients of a staged version so far, over all its stages.
package struct ReleaseClients: Sendable, Hashable {
    /// Identified clients that fetched the version or a newer one.
    package var fetched = 0
    /// Identified clients that report that they could not activate it, and did not since.
    package var failed = 0
    /// Identified clients that were told and are still there; of stages only that had enough time to fetch.
    package var told = 0
    /// Clients among these that have not fetched.
    package var silent = 0
    /// Fetches answered since its first stage, of all clients of the scope.
    package var answers = 0
    /// Fetches refused since then for no fault of the client's.
    package var errors = 0

    package init() {}
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
                clients.answers += stage.answers
                clients.errors += stage.errors
                guard stage.ageSeconds >= Double(stage.fetchWindowMs) / 1000 + Self.patience else { continue }
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
        guard let number = number(known: scope) else { return clients }
        let wanted = UInt32(clamping: version.rawValue)
        clients.fetched = table.entries.count { $0.scope == number && $0.fetched >= wanted } * table.weight
        clients.failed =
            failures.count { key, failure in
                guard failure.version >= wanted, let place = table.place(of: key) else { return false }
                return table.entries[place].scope == number && table.entries[place].active < wanted
            } * table.weight
        return clients
    }
}
