import StalecastWire

/// State of the clients that have each version: the newest versions of every scope and the clients that say who they
/// are. Pure; the time comes with each call, in nanoseconds of one clock.
///  Longer than other files: counts, ring and clients must agree after every fact, and stay private to what keeps them so.
struct RolloutState {
    /// Versions of a scope kept in memory; a bit each.
    static let ring = 32
    /// Time, in tenths of a second, after which a client that has gone without a fetch leaves the audience.
    static let absence: UInt32 = 100
    /// Time after which a client that was not seen is forgotten: 25 h.
    static let memory: UInt32 = 25 * 36_000
    /// Time after which the word of a client that was not seen does not count.
    static let credence: UInt32 = 36_000
    private static let maxFailures = 4096
    /// Failures that clients of one address may have reported first within an hour: all of them together must not take
    /// the place of all others.
    private var newFailures = AddressBudget(perAddress: 256, total: .max, period: 36_000)

    var table: ClientTable
    /// Oldest first.
    private(set) var rollouts: [Scope: [VersionRollout]] = [:]
    /// The newest version that exists; no claim goes beyond it.
    private var newest: [Scope: VersionNumber] = [:]
    private(set) var seconds = StageSeconds()
    /// Load of the newest version of each scope.
    private(set) var loads: [Scope: FetchLoad] = [:]
    private var scopes: [Scope] = []
    private var scopeNumbers: [Scope: UInt16] = [:]
    private var topicSets = NumberedValues<Set<Topic.Index>>([])
    private(set) var labels = LabelList()
    /// Time when sets and labels that no client has any more made room last.
    private var lastReclaim: UInt32?
    /// Reported failures, by key.
    private(set) var failures: [UInt64: (version: UInt32, error: String)] = [:]
    /// Clients that may have gone, oldest first, and since when.
    private var leaving: [(key: UInt64, at: UInt32)] = []
    private var leavingHead = 0
    private var lastSweep: UInt32 = 0
    /// Sightings of clients that belong to no audience here; nil: not asked for.
    var foreignFetches: [RolloutTracker.ForeignFetch]?
    /// Sightings of versions that are to be announced here yet.
    private var early: [RolloutTracker.ForeignFetch] = []
    /// Most sightings: as many as clients are counted one by one by default, so that those of one second always fit. A
    /// client whose sighting is lost would be awaited until the next version.
    private static let maxForeignFetches = 65_536
    private var newIDs = AddressBudget(perAddress: 1024, total: .max, period: 600)
    private(set) var loops = 0
    private let began: UInt64

    init(cap: Int, keepsNames: Bool, now: UInt64) {
        table = ClientTable(cap: cap, keepsNames: keepsNames)
        began = now
    }

    /// Tenths of a second since the book began.
    func tenths(_ now: UInt64) -> UInt32 { UInt32(clamping: (max(now, began) - began) / 100_000_000) }

    mutating func addLoop() -> Int {
        loops += 1
        return loops
    }

    // MARK: Versions

    mutating func announced(
        _ change: TemplateChange, topics: Set<Topic.Index>, fetchWindowMs: Int, isPartial: Bool = false,
        isStored: Bool = false, at now: UInt64, time: Timestamp
    ) {
        leave(at: now)
        var list = rollouts[change.scope] ?? []
        let taken = list.suffix(Self.ring - 1).reduce(UInt32(0)) { $0 | $1.bit }
        let bit = ~taken & (taken + 1)
        // A later stage of a release announces the version once more.
        let previous = list.last?.version == change.version ? list.last?.previous : newest[change.scope]
        var rollout = VersionRollout(
            change, previous: previous, topics: topics, fetchWindowMs: fetchWindowMs, bit: bit,
            isPartial: isPartial, startedAt: now, announceTime: time)
        rollout.isStored = isStored
        gather(&rollout, in: change.scope)
        list = list.suffix(Self.ring - 1) + [rollout]
        rollouts[change.scope] = list
        newest[change.scope] = change.version
        let waiting = early
        early = []
        for foreignFetch in waiting { seenElsewhere(foreignFetch, at: now) }
        loads[change.scope] = FetchLoad(
            change.sequence, fetchWindowMs: fetchWindowMs, after: loads[change.scope], at: now)
    }

    /// The audience of a version: who is here, hears it and has an older one.
    private mutating func gather(_ rollout: inout VersionRollout, in scope: Scope) {
        let number = scopeNumber(scope)
        let hears = topicSets.values.map { !$0.isDisjoint(with: rollout.topics) }
        for place in table.entries.indices where table.entries[place].scope == number {
            table.entries[place].cohort &= ~rollout.bit
            table.entries[place].gone &= ~rollout.bit
            table.entries[place].fetches = 0
            let entry = table.entries[place]
            guard entry.isPresent, hears[Int(entry.topics)] else { continue }
            rollout.identifiedStreams += Int(entry.streams)
            guard entry.fetched < rollout.number else { continue }
            table.entries[place].cohort |= rollout.bit
            rollout.audience += 1
        }
    }

    /// A loop tells how far a version is on its streams.
    mutating func note(
        _ streamCounts: StreamCounts, of loop: Int, in scope: Scope, _ sequence: CommitSequence, at now: UInt64
    ) {
        guard let place = rollouts[scope]?.lastIndex(where: { $0.sequence == sequence }) else { return }
        rollouts[scope]?[place].note(streamCounts, of: loop, isComplete: { [loops] in $0 >= loops }, at: now, &seconds)
    }

    // MARK: Clients

    /// A stream or a held poll of a client began.
    ///
    /// - Parameters:
    ///   - held: the version it has by its own word, 0 when it says nothing.
    ///   - head: what its loop had announced: a newer version finds it in its audience.
    ///   - address: nil has no limit of its own.
    mutating func joined(
        _ client: ClientIdentity, _ scope: Scope, topics: Set<Topic.Index>, isPoll: Bool, held: VersionNumber,
        head: CommitSequence, address: (key: UInt64, isLimited: Bool), at now: UInt64
    ) {
        guard let place = place(of: client, scope, address, at: now) else { return }
        let number = number(of: topics, at: now)
        table.entries[place].topics = number
        if isPoll { table.entries[place].polls += table.entries[place].polls == .max ? 0 : 1 }
        if !isPoll { table.entries[place].streams += table.entries[place].streams == .max ? 0 : 1 }
        table.entries[place].isPresent = true
        raise(place, scope, fetched: held, active: client.active ?? 0, at: now)
        let fetched = table.entries[place].fetched
        // Another node may have answered it before it came here.
        if fetched == 0 { tell(place, scope) }
        for index in (rollouts[scope] ?? []).indices.reversed() {
            let rollout = rollouts[scope]![index]
            guard rollout.sequence > head || rollout.isPartial else { break }
            guard (table.entries[place].cohort | table.entries[place].gone) & rollout.bit == 0,
                !rollout.topics.isDisjoint(with: topics), rollout.isPartial || fetched < rollout.number
            else { continue }
            enter(place, scope, index, at: now)
        }
    }

    private mutating func enter(_ place: Int, _ scope: Scope, _ index: Int, at now: UInt64) {
        guard let rollout = rollouts[scope]?[index] else { return }
        let entry = table.entries[place]
        table.entries[place].cohort |= rollout.bit
        rollouts[scope]![index].audience += 1
        rollouts[scope]![index].identifiedStreams += entry.polls > 0 ? 0 : 1
        if entry.fetched >= rollout.number { rollouts[scope]![index].fetched += 1 }
        if entry.active >= rollout.number { rollouts[scope]![index].active += 1 }
        rollouts[scope]![index].noteClients(weight: table.weight, at: now, &seconds)
    }

    /// A client moved to the topics of its stage. Loops move their clients a moment after a release has split them, so
    /// its first stage was gathered by the topics of before.
    mutating func moved(
        _ key: UInt64, to topics: Set<Topic.Index>, in scope: Scope, by version: VersionNumber, at now: UInt64
    ) {
        guard let place = table.place(of: key) else { return }
        let number = number(of: topics, at: now)
        table.entries[place].topics = number
        guard table.entries[place].scope == scopeNumbers[scope] else { return }
        for (index, rollout) in (rollouts[scope] ?? []).enumerated() where rollout.version == version {
            let entry = table.entries[place]
            let (hears, isIn) = (!rollout.topics.isDisjoint(with: topics), entry.cohort & rollout.bit != 0)
            let enters = hears && entry.isPresent && entry.fetched < rollout.number && entry.gone & rollout.bit == 0
            guard isIn ? !hears : enters else { continue }
            let change = hears ? 1 : -1
            table.entries[place].cohort ^= rollout.bit
            rollouts[scope]![index].audience += change
            rollouts[scope]![index].identifiedStreams += change * Int(entry.streams)
            if entry.fetched >= rollout.number { rollouts[scope]![index].fetched += change }
            if entry.active >= rollout.number { rollouts[scope]![index].active += change }
            rollouts[scope]![index].noteClients(weight: table.weight, at: now, &seconds)
        }
    }

    /// A stream or a held poll of a client ended.
    mutating func left(_ key: UInt64, isPoll: Bool, at now: UInt64) {
        guard let place = table.place(of: key) else { return }
        if isPoll, 1..<UInt16.max ~= table.entries[place].polls { table.entries[place].polls -= 1 }
        if !isPoll, 1..<UInt16.max ~= table.entries[place].streams { table.entries[place].streams -= 1 }
        table.entries[place].seen = tenths(now)
        guard !table.entries[place].isLive, !table.entries[place].isLeaving else { return }
        table.entries[place].isLeaving = true
        leaving.append((key, tenths(now)))
    }

    /// Notes a client that got an answer of a version. Without a stream a client belongs to no audience.
    mutating func fetched(
        _ client: ClientIdentity?, _ scope: Scope, _ version: VersionNumber, seconds: Double,
        address: (key: UInt64, isLimited: Bool), at now: UInt64
    ) {
        if let last = rollouts[scope]?.indices.last { rollouts[scope]![last].answered(at: now) }
        var place: Int?
        if let client { place = self.place(of: client, scope, address, at: now) }
        var counted = 0
        if let place { counted = countFetch(place) }
        loads[scope]?.answered(in: seconds, counting: counted, at: now)
        guard let client, let place else { return }
        raise(place, scope, fetched: version, active: client.active ?? 0, at: now)
    }

    /// - Returns: how many clients the fetch counts for in its version's herd.
    private mutating func countFetch(_ place: Int) -> Int {
        guard table.entries[place].fetches < FetchLoad.mostOfOne else { return 0 }
        table.entries[place].fetches += 1
        return table.weight
    }

    /// Another node tells of a client that may be known here. Of two nodes that count it one goes on: where this one
    /// should, it tells the other.
    mutating func seenElsewhere(_ foreignFetch: RolloutTracker.ForeignFetch, at now: UInt64) {
        if foreignFetch.fetched > newest[foreignFetch.scope] ?? 0 {
            if early.count < Self.maxForeignFetches { early.append(foreignFetch) }
            return
        }
        guard let place = table.place(of: foreignFetch.key) else { return }
        let (before, fetched) = (table.entries[place], UInt32(clamping: foreignFetch.fetched.rawValue))
        raise(
            place, foreignFetch.scope, fetched: foreignFetch.fetched, active: foreignFetch.active, at: now,
            isHeard: true)
        if noteFailure(foreignFetch, of: place) { tell(place, foreignFetch.scope) }
        guard foreignFetch.isCounted, before.fetched > 0, before.fetched >= fetched, !before.isCountedElsewhere else {
            return
        }
        if foreignFetch.wins, before.fetched == fetched {
            table.entries[place].isCountedElsewhere = true
        } else {
            tell(place, foreignFetch.scope)
        }
    }

    /// Takes a failure that a client reported to another node.
    ///
    /// - Returns: whether this node knows a newer one.
    private mutating func noteFailure(_ foreignFetch: RolloutTracker.ForeignFetch, of place: Int) -> Bool {
        let failed = UInt32(clamping: min(foreignFetch.failed, newest[foreignFetch.scope] ?? 0).rawValue)
        let known = failures[foreignFetch.key]
        if let known, known.version > failed { return true }
        guard failed > max(table.entries[place].active, known?.version ?? 0),
            known != nil || failures.count < Self.maxFailures
        else { return false }
        failures[foreignFetch.key] = (failed, known?.error ?? "")
        return false
    }

    /// Tells other nodes of a client that they may count.
    private mutating func sight(_ place: Int, _ scope: Scope) {
        guard let last = rollouts[scope]?.last else { return }
        let entry = table.entries[place]
        if entry.cohort & last.bit == 0 || entry.isCountedElsewhere { tell(place, scope) }
    }

    private mutating func tell(_ place: Int, _ scope: Scope) {
        guard let count = foreignFetches?.count, count < Self.maxForeignFetches else { return }
        let (entry, key) = (table.entries[place], table.keys[place])
        foreignFetches?.append(
            RolloutTracker.ForeignFetch(
                key: key, scope: scope, fetched: VersionNumber(clamping: Int64(entry.fetched)),
                active: VersionNumber(clamping: Int64(entry.active)),
                failed: VersionNumber(clamping: Int64(failures[key]?.version ?? 0)),
                isCounted: !entry.isCountedElsewhere))
    }

    /// A fetch was refused for no fault of the client's.
    mutating func refused(_ scope: Scope, status: Int, at now: UInt64) {
        if let last = rollouts[scope]?.indices.last { rollouts[scope]![last].errors += 1 }
        loads[scope]?.refused(status: status, at: now)
    }

    /// A client's own word, of one that is connected or was seen within the hour.
    ///
    /// - Returns: whether it was believed.
    mutating func claimed(
        _ key: UInt64, _ scope: Scope, _ claim: ClientReport, address: (key: UInt64, isLimited: Bool), at now: UInt64
    ) -> Bool {
        leave(at: now)
        guard let place = table.place(of: key),
            table.entries[place].isPresent || tenths(now) - table.entries[place].seen <= Self.credence
        else { return false }
        switch claim.state {
        case .fetched: raise(place, scope, fetched: claim.version, active: 0, at: now)
        case .active: raise(place, scope, fetched: claim.version, active: claim.version, at: now)
        case .failed:
            if failures[key] == nil {
                guard failures.count < Self.maxFailures,
                    newFailures.takes(address.isLimited ? address.key : nil, at: tenths(now))
                else { return false }
            }
            failures[key] = (UInt32(clamping: min(claim.version, newest[scope] ?? 0).rawValue), claim.error)
            tell(place, scope)
        }
        return true
    }

    private mutating func place(
        of client: ClientIdentity, _ scope: Scope, _ address: (key: UInt64, isLimited: Bool), at now: UInt64
    ) -> Int? {
        let key = client.key(in: scope)
        if let place = table.place(of: key) {
            table.entries[place].seen = tenths(now)
            if table.keepsNames {
                let label = label(of: client, over: place, at: now)
                table.entries[place].label = label
            }
            return place
        }
        guard !address.isLimited || newIDs.takes(address.key, at: tenths(now)) else { return nil }
        let label = table.keepsNames ? label(of: client, over: nil, at: now) : 0
        let entry = ClientTable.Entry(seen: tenths(now), scope: scopeNumber(scope), label: label)
        let (place, hasShrunk) = table.add(key, entry, id: client.id, address: address.key)
        if hasShrunk { recount() }
        return place
    }

    /// Raises a client from a version to a newer one; older ones change nothing.
    private mutating func raise(
        _ place: Int, _ scope: Scope, fetched: VersionNumber, active: VersionNumber, at now: UInt64,
        isHeard: Bool = false
    ) {
        let most = newest[scope] ?? 0
        let active = UInt32(clamping: min(active, most).rawValue)
        let fetched = max(UInt32(clamping: min(fetched, most).rawValue), active)
        let before = table.entries[place]
        guard fetched > before.fetched || active > before.active else { return }
        table.entries[place].fetched = max(before.fetched, fetched)
        table.entries[place].active = max(before.active, active)
        if fetched > before.fetched { table.entries[place].isCountedElsewhere = isHeard }
        if !isHeard { sight(place, scope) }
        if let failure = failures[table.keys[place]], failure.version <= active { failures[table.keys[place]] = nil }
        guard before.cohort != 0, let list = rollouts[scope] else { return }
        for (index, rollout) in list.enumerated() where before.cohort & rollout.bit != 0 {
            let number = rollout.number
            let gets = before.fetched < number && fetched >= number
            let runs = before.active < number && active >= number
            guard gets || runs else { continue }
            if gets { rollouts[scope]![index].fetched += 1 }
            if runs { rollouts[scope]![index].active += 1 }
            rollouts[scope]![index].noteClients(weight: table.weight, at: now, &seconds)
        }
    }

    func present(in scope: Scope) -> Int {
        guard let number = scopeNumbers[scope] else { return 0 }
        return table.entries.count { $0.isPresent && $0.scope == number } * table.weight
    }

    // MARK: Time

    /// Lets go of those that are gone for too long; call it before anything is told.
    mutating func leave(at now: UInt64) {
        let time = tenths(now)
        while leavingHead < leaving.count, leaving[leavingHead].at + Self.absence < time {
            let (key, _) = leaving[leavingHead]
            leavingHead += 1
            guard let place = table.place(of: key) else { continue }
            table.entries[place].isLeaving = false
            if table.entries[place].isLive { continue }
            if table.entries[place].seen + Self.absence >= time {
                table.entries[place].isLeaving = true
                leaving.append((key, table.entries[place].seen))
            } else {
                part(place, at: now)
            }
        }
        if leavingHead > 1024, leavingHead * 2 > leaving.count {
            leaving.removeFirst(leavingHead)
            leavingHead = 0
        }
        // Every ten minutes.
        if time > lastSweep + 6000 { forget(at: time) }
    }

    private mutating func part(_ place: Int, at now: UInt64) {
        table.entries[place].isPresent = false
        let entry = table.entries[place]
        let scope = scopes[Int(entry.scope)]
        guard entry.cohort != 0, let list = rollouts[scope] else { return }
        for (index, rollout) in list.enumerated()
        where entry.cohort & rollout.bit != 0 && entry.fetched < rollout.number {
            table.entries[place].cohort &= ~rollout.bit
            table.entries[place].gone |= rollout.bit
            rollouts[scope]![index].left += 1
            rollouts[scope]![index].noteClients(weight: table.weight, at: now, &seconds)
        }
    }

    private mutating func forget(at time: UInt32) {
        lastSweep = time
        let oldest = time > Self.memory ? time - Self.memory : 0
        if table.entries.contains(where: { !$0.isPresent && $0.seen < oldest }) {
            table.keep { $1.isPresent || $1.seen >= oldest }
            failures = failures.filter { table.place(of: $0.key) != nil }
        }
        table.growSample()
    }

    /// The sample became smaller: everything is counted again in it.
    private mutating func recount() {
        for (scope, list) in rollouts {
            let number = scopeNumber(scope)
            for (index, before) in list.enumerated() {
                var rollout = before
                (rollout.audience, rollout.fetched, rollout.active, rollout.left) = (0, 0, 0, 0)
                rollout.identifiedStreams = before.identifiedStreams / 2
                for entry in table.entries where entry.scope == number {
                    if entry.gone & rollout.bit != 0 { rollout.left += 1 }
                    if (entry.gone | entry.cohort) & rollout.bit != 0 { rollout.audience += 1 }
                    guard entry.cohort & rollout.bit != 0 else { continue }
                    if entry.fetched >= rollout.number { rollout.fetched += 1 }
                    if entry.active >= rollout.number { rollout.active += 1 }
                }
                rollout.got.recount(rollout.fetched)
                rollout.runs.recount(rollout.active)
                rollouts[scope]![index] = rollout
            }
        }
    }

    /// Versions whose row in the store is missing or old: those that ended, so that nothing is expected of them any
    /// more, and those that a newer one followed.
    ///
    /// - Parameter isEnding: the process ends; all that are not there are written as they are.
    mutating func settled(at now: UInt64, isEnding: Bool = false) -> [(Scope, RolloutStatus)] {
        leave(at: now)
        var rows: [(Scope, RolloutStatus)] = []
        for (scope, list) in rollouts {
            for (index, rollout) in list.enumerated() where !rollout.isStored {
                let result = propagation(scope, index, at: now)
                let isLast = index == 0 && list.count == Self.ring
                let isQuiet = result.ageSeconds > Self.quiet
                let isOver =
                    isEnding || isLast || result.state == .expired || result.ageSeconds > 3600
                    || isQuiet && result.state.isDone
                guard isOver || isQuiet && result.state == .superseded && !rollout.isNoted else { continue }
                rollouts[scope]![index].isStored = isOver
                rollouts[scope]![index].isNoted = true
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
        let number = scopeNumbers[scope]
        let failed = failures.reduce(0) { sum, failure in
            guard failure.value.version >= rollout.number, let place = table.place(of: failure.key) else { return sum }
            let entry = table.entries[place]
            guard entry.scope == number, entry.cohort & rollout.bit != 0 else { return sum }
            return sum + (entry.active < rollout.number ? 1 : 0)
        }
        let unknown =
            !rollout.isPartial
            ? 0 : table.entries.count { $0.scope == number && $0.cohort & rollout.bit != 0 && $0.fetched == 0 }
        return rollout.propagation(
            failed: failed, unknown: unknown, weight: table.weight, isNewest: index == list.count - 1,
            isComplete: rollout.isPartial || rollout.loops.count >= loops, at: now)
    }

    // MARK: Numbers of names

    private mutating func scopeNumber(_ scope: Scope) -> UInt16 {
        if let number = scopeNumbers[scope] { return number }
        let number = UInt16(clamping: scopes.count)
        scopes.append(scope)
        scopeNumbers[scope] = number
        return number
    }

    func number(known scope: Scope) -> UInt16? { scopeNumbers[scope] }
    func scope(_ number: UInt16) -> Scope { scopes[Int(number)] }
    func topics(of place: Int) -> Set<Topic.Index> { topicSets[table.entries[place].topics] }

    /// A client with a set for which there is no room counts as one that hears nothing.
    private mutating func number(of topics: Set<Topic.Index>, at now: UInt64) -> UInt16 {
        if let number = topicSets.number(of: topics) { return number }
        reclaim(at: now)
        return topicSets.number(of: topics) ?? 0
    }

    /// A client whose new label finds no room keeps the one it had.
    ///
    /// - Parameter place: the client's; nil for a new one.
    private mutating func label(of client: ClientIdentity, over place: Int?, at now: UInt64) -> UInt16 {
        if let number = labels.number(of: client, over: label(place)) { return number }
        reclaim(at: now)
        return labels.number(of: client, over: label(place)) ?? label(place)
    }

    private func label(_ place: Int?) -> UInt16 { place.map { table.entries[$0].label } ?? 0 }

    /// Lets go of the sets and labels that no client has any more. Strangers make both, and what they leave behind must
    /// not take the room of those who come after them. It passes over all clients, so at most once a minute.
    private mutating func reclaim(at now: UInt64) {
        let time = tenths(now)
        if let lastReclaim, time < lastReclaim + 600 { return }
        lastReclaim = time
        let present = table.entries.lazy.filter(\.isPresent)
        let topics = topicSets.keep(Set(present.map(\.topics)))
        let labels = labels.keep(Set(table.entries.lazy.map(\.label)))
        for place in table.entries.indices {
            let entry = table.entries[place]
            table.entries[place].topics = entry.isPresent ? topics[Int(entry.topics)] : 0
            table.entries[place].label = labels[Int(entry.label)]
        }
    }
}
