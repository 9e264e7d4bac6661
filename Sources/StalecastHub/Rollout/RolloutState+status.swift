import StalecastWire

extension RolloutState {
    func topics(of place: Int) -> Set<Topic.Index> { names.topics(table.entries[place].topics) }

    func present(in scope: Scope) -> Int {
        names.number(known: scope).map { table.presentCount(of: $0) * table.weight } ?? 0
    }

    /// Versions whose row in the store is missing or old: those that ended, so that nothing is expected of them any
    /// more, and those that a newer one followed. A row is written again when the counts have changed: the process may
    /// be killed at any time.
    ///
    /// - Parameter isEnding: the process ends; all that are not there are written as they are.
    mutating func settled(at now: UInt64, isEnding: Bool = false) -> [(Scope, RolloutStatus)] {
        leave(at: now)
        var rows: [(Scope, RolloutStatus)] = []
        for (scope, list) in rollouts.lists {
            for (index, rollout) in list.enumerated() where rollout.record != .ended {
                let result = propagation(scope, index, at: now)
                // The next version pushes the oldest one out of a full ring, and nothing is known of it then.
                let isLast = index == 0 && list.count == ScopeRollouts.ring
                let isQuiet = result.ageSeconds > Self.quiet
                let isOver = isEnding || isLast || result.state == .expired || result.ageSeconds > 3600
                guard isOver || result.state == .superseded || isQuiet && result.state.isDone else { continue }
                note(isOver ? .ended : .counts(result.clients, result.streams), of: index, in: scope)
                if rollout.record == .counts(result.clients, result.streams) { continue }
                rows.append((scope, result))
            }
        }
        return rows
    }

    /// Seconds after which one that converged is written down: what runs it comes a little later.
    private static let quiet = 15.0

    func propagation(_ scope: Scope, _ index: Int, at now: UInt64) -> RolloutStatus {
        let list = rollouts[scope] ?? []
        let rollout = list[index]
        let number = names.number(known: scope)
        let failed = failures.all.reduce(0) { sum, failure in
            guard failure.value.version >= rollout.number, let place = table.place(of: failure.key) else { return sum }
            let entry = table.entries[place]
            guard entry.scope == number, entry.isAwaited(rollout.bit) else { return sum }
            return sum + (entry.active < rollout.number ? 1 : 0)
        }
        let unknown =
            !rollout.isPartial
            ? 0 : table.entries.count { $0.scope == number && $0.isAwaited(rollout.bit) && $0.fetched == 0 }
        var status = rollout.propagation(
            unknown: unknown, weight: table.weight, isNewest: index == list.count - 1,
            isComplete: rollout.isPartial || rollout.loops.count >= loops, at: now)
        status.clients.failed = failed * table.weight
        return status
    }
}
