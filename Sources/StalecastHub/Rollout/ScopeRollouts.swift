import StalecastWire

/// The newest versions of every scope. An entry of ``ClientTable`` says to which audiences its client belongs: whatever
/// happens to a client changes its entry and the versions' counts together.
struct ScopeRollouts {
    /// Versions of a scope kept in memory; a bit each.
    static let ring = 32

    /// Versions of each scope, oldest first.
    private(set) var lists: [Scope: [VersionRollout]] = [:]
    /// The newest version that exists; no claim goes beyond it.
    private var newest: [Scope: VersionNumber] = [:]
    private(set) var seconds = StageSeconds()

    subscript(scope: Scope) -> [VersionRollout]? { lists[scope] }
    var scopes: [Scope] { Array(lists.keys) }

    /// 0 before the first version.
    func newest(of scope: Scope) -> VersionNumber { newest[scope] ?? 0 }

    // MARK: Versions

    mutating func announced(_ announced: AnnouncedVersion, loops: Int) {
        let change = announced.change
        // Taken out of the dictionary, so that changing it copies nothing.
        var list: [VersionRollout] = []
        swap(&list, &lists[change.scope, default: []])
        let taken = list.suffix(Self.ring - 1).reduce(UInt32(0)) { $0 | $1.bit }
        // The lowest bit that no kept version has.
        let bit = ~taken & (taken + 1)
        // A later stage of a release announces the version once more.
        let previous = list.last?.version == change.version ? list.last?.previous : newest[change.scope]
        var rollout = VersionRollout(announced, previous: previous, bit: bit)
        rollout.loops.reserveCapacity(loops)
        // A staged version has an entry for each of its stages.
        for index in list.indices where list[index].version != change.version { list[index].overtake() }
        if list.count >= Self.ring { list.removeFirst(list.count - Self.ring + 1) }
        list.append(rollout)
        lists[change.scope] = list
        newest[change.scope] = change.version
    }

    /// Counts the audience of a scope's newest version.
    mutating func gather(_ entries: inout [ClientTable.Entry], in scope: Scope, _ names: SharedNames) {
        // A scope without a number has no clients.
        guard let number = names.number(known: scope), let index = lists.index(forKey: scope),
            let place = lists.values[index].indices.last
        else { return }
        let hears = names.hears(lists.values[index][place].topics)
        lists.values[index][place].gather(&entries, of: number, hears: hears)
    }

    /// Notes how far a version is on a loop's streams.
    ///
    /// - Parameters:
    ///   - streamCounts: nil for a loop without streams; ignored when the loop has counted this version before.
    ///   - loops: number of loops; the audience is known when all have counted.
    mutating func note(
        _ streamCounts: StreamCounts?, of loop: Int, in scope: Scope, _ sequence: CommitSequence, loops: Int,
        at now: UInt64
    ) {
        // The value is changed by its place: a change by its key takes memory each time.
        guard let scope = lists.index(forKey: scope),
            let place = lists.values[scope].lastIndex(where: { $0.sequence == sequence })
        else { return }
        if streamCounts == nil, lists.values[scope][place].loops[loop] != nil { return }
        lists.values[scope][place].note(
            streamCounts ?? StreamCounts(), of: loop, isComplete: { $0 >= loops }, at: now, &seconds)
    }

    /// Notes what the row in the store says of a version.
    mutating func note(_ record: VersionRollout.Record, of index: Int, in scope: Scope) {
        lists[scope]?[index].record = record
    }

    // MARK: Fetches

    mutating func answered(_ scope: Scope, at now: UInt64) {
        guard let index = lists.index(forKey: scope), let last = lists.values[index].indices.last else { return }
        lists.values[index][last].fetches.answered(at: now)
    }

    mutating func refused(_ scope: Scope) {
        if let last = lists[scope]?.indices.last { lists[scope]?[last].fetches.counts.errors += 1 }
    }

    // MARK: Clients

    /// A client came: it belongs to the audience of versions that its cursor does not cover.
    mutating func enter(_ entry: inout ClientTable.Entry, _ arrival: ClientArrival, weight: Int, at now: UInt64) {
        let scope = arrival.scope
        for index in (lists[scope] ?? []).indices.reversed() {
            guard let rollout = lists[scope]?[index], rollout.sequence > arrival.head || rollout.isPartial else {
                break
            }
            guard (entry.cohort | entry.gone) & rollout.bit == 0, !rollout.topics.isDisjoint(with: arrival.topics),
                rollout.isPartial || entry.fetched < rollout.number
            else { continue }
            lists[scope]?[index].enter(&entry)
            lists[scope]?[index].noteClients(weight: weight, at: now, &seconds)
        }
    }

    /// A client that left the audience of the newest version is there again. A staged version has an entry for each of
    /// its stages. Older versions stay without it: it will get the newest one.
    mutating func comeBack(_ entry: inout ClientTable.Entry, _ scope: Scope, _ topics: Set<Topic.Index>) {
        guard entry.gone != 0, let list = lists[scope], let newest = list.last else { return }
        for (index, rollout) in list.enumerated().reversed() {
            guard rollout.version == newest.version else { break }
            guard !rollout.topics.isDisjoint(with: topics) else { continue }
            lists[scope]?[index].reenter(&entry)
        }
    }

    /// A client moved to the topics of its stage.
    mutating func move(
        _ entry: inout ClientTable.Entry, to topics: Set<Topic.Index>, in scope: Scope, by version: VersionNumber,
        weight: Int, at now: UInt64
    ) {
        for (index, rollout) in (lists[scope] ?? []).enumerated() where rollout.version == version {
            let (hears, isIn) = (!rollout.topics.isDisjoint(with: topics), entry.isAwaited(rollout.bit))
            let enters = hears && entry.isPresent && entry.fetched < rollout.number && entry.gone & rollout.bit == 0
            guard isIn ? !hears : enters else { continue }
            lists[scope]?[index].move(&entry, isIn: hears)
            lists[scope]?[index].noteClients(weight: weight, at: now, &seconds)
        }
    }

    /// A client has newer versions than `before` says.
    mutating func raise(
        _ entry: inout ClientTable.Entry, from before: ClientTable.Entry, in scope: Scope, weight: Int, at now: UInt64
    ) {
        let concerned = before.cohort | before.gone
        guard concerned != 0, let list = lists[scope] else { return }
        for (index, rollout) in list.enumerated() where concerned & rollout.bit != 0 {
            let number = rollout.number
            // A client that left without a version counts for it again once it has it. If it came back with a newer
            // one, the older one may be why it went.
            if before.gone & rollout.bit != 0 {
                guard before.fetched < number, entry.fetched == number else { continue }
                lists[scope]?[index].reenter(&entry)
            }
            let gets = before.fetched < number && entry.fetched >= number
            let runs = before.active < number && entry.active >= number
            guard gets || runs else { continue }
            if gets { lists[scope]?[index].clients.fetched += 1 }
            if runs { lists[scope]?[index].clients.active += 1 }
            lists[scope]?[index].noteClients(weight: weight, at: now, &seconds)
        }
    }

    /// A client leaves the audiences of versions that it does not have.
    ///
    /// - Parameter wasTold: whether it was told of a version; nil where it does not leave that version's audience yet.
    mutating func part(
        _ entry: inout ClientTable.Entry, in scope: Scope, weight: Int, at now: UInt64,
        wasTold: (VersionRollout) -> Bool?
    ) {
        guard entry.cohort != 0, let list = lists[scope] else { return }
        for (index, rollout) in list.enumerated()
        where entry.isAwaited(rollout.bit) && entry.fetched < rollout.number {
            guard let wasTold = wasTold(rollout) else { continue }
            lists[scope]?[index].part(&entry, wasTold: wasTold)
            lists[scope]?[index].noteClients(weight: weight, at: now, &seconds)
        }
    }

    /// Counts again in a sample that became smaller.
    ///
    /// - Parameter entries: all of the scope.
    mutating func recount(_ entries: [ClientTable.Entry], in scope: Scope) {
        for index in (lists[scope] ?? []).indices { lists[scope]?[index].recount(entries) }
    }
}
