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

    /// Counts of two nodes of a cluster together. A client that fetches at one and listens at the other is among
    /// ``fetched`` twice.
    package static func + (a: ReleaseClients, b: ReleaseClients) -> ReleaseClients {
        var sum = a
        sum.fetched += b.fetched
        sum.failed += b.failed
        sum.told += b.told
        sum.silent += b.silent
        sum.answers += b.answers
        sum.errors += b.errors
        return sum
    }

    /// Record for other nodes.
    package var shared: JSONValue { .array([fetched, failed, told, silent, answers, errors].map { .int($0) }) }

    /// nil for what ``shared`` did not make.
    package init?(shared value: JSONValue) {
        let counts = (value.array ?? []).map { Int(clamping: min(max($0.int64 ?? 0, 0), 1 << 32)) }
        guard counts.count >= 6 else { return nil }
        (fetched, failed, told) = (counts[0], counts[1], counts[2])
        (silent, answers, errors) = (counts[3], counts[4], counts[5])
    }
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
