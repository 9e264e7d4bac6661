import DequeModule
import StalecastWire

/// State of the clients that have each version: the newest versions of every scope and the clients that say who they
/// are. Pure; the time comes with each call, in nanoseconds of one clock.
struct RolloutState {
    /// Time, in tenths of a second, after which a client that has gone without a fetch leaves the audience.
    static let absence: UInt32 = 100
    /// Time after which a client that was not seen is forgotten: 25 h.
    static let memory: UInt32 = 25 * 36_000
    /// Time after which the word of a client that was not seen does not count.
    static let credence: UInt32 = 36_000
    /// Nanoseconds after an announcement in which other nodes of a cluster are told all that is new: two minutes.
    static let fresh: UInt64 = 120_000_000_000

    var table: ClientTable
    private(set) var rollouts = ScopeRollouts()
    /// Scope whose newest version has no audience yet; nil: none. See ``gather()``.
    private var ungathered: Scope?
    private(set) var loads: [Scope: FetchLoad] = [:]
    private(set) var names = SharedNames()
    private(set) var failures = ReportedFailures()
    /// Clients that may have gone, oldest first.
    private var departures: Deque<(key: UInt64, at: UInt32)> = []
    private var lastSweep: UInt32 = 0
    /// Sightings of clients that belong to no audience here; nil: not asked for.
    var sightings: Sightings?
    /// Sightings of versions that are to be announced here yet.
    private var early: [RolloutTracker.ForeignFetch] = []
    private(set) var loops = 0
    private let began: UInt64

    init(cap: Int, keepsNames: Bool, now: UInt64) {
        table = ClientTable(cap: cap, keepsNames: keepsNames)
        began = now
    }

    /// Tenths of a second since the book began.
    func tenths(_ now: UInt64) -> UInt32 { Self.tenths(now, since: began) }

    private static func tenths(_ now: UInt64, since began: UInt64) -> UInt32 {
        UInt32(clamping: (max(now, began) - began) / 100_000_000)
    }

    mutating func addLoop() -> Int {
        loops += 1
        return loops
    }

    // MARK: Versions

    mutating func announced(_ announced: AnnouncedVersion) {
        let (change, now) = (announced.change, announced.now)
        depart(at: now)
        rollouts.announced(announced, loops: loops)
        ungathered = change.scope
        let waiting = early
        early = []
        for foreignFetch in waiting { seenElsewhere(foreignFetch, at: now) }
        loads[change.scope] = FetchLoad(
            change.sequence, fetchWindowMs: announced.fetchWindowMs, after: loads[change.scope], at: now)
    }

    /// Counts the audience of the version that was announced last. It passes over all clients, so an announcement leaves
    /// it to what reads or changes clients next: as a rule a loop, which tells its counts when it has sent the version.
    private mutating func gather() {
        guard let scope = ungathered else { return }
        ungathered = nil
        rollouts.gather(&table.entries, in: scope, names)
    }

    mutating func note(
        _ streamCounts: StreamCounts?, of loop: Int, in scope: Scope, _ sequence: CommitSequence, at now: UInt64
    ) {
        if streamCounts != nil { gather() }
        rollouts.note(streamCounts, of: loop, in: scope, sequence, loops: loops, at: now)
    }

    // MARK: Clients

    mutating func joined(_ arrival: ClientArrival, address: (key: UInt64, isLimited: Bool), at now: UInt64) {
        gather()
        let (client, scope, topics, isPoll) = (arrival.client, arrival.scope, arrival.topics, arrival.isPoll)
        guard let place = place(of: client, scope, address, at: now) else { return }
        let number = names.number(of: topics, in: &table, at: tenths(now))
        let before = table.entries[place]
        table.entries[place].topics = number
        table.entries[place].node = 0
        if isPoll { table.entries[place].polls += table.entries[place].polls == .max ? 0 : 1 }
        if !isPoll { table.entries[place].streams += table.entries[place].streams == .max ? 0 : 1 }
        table.setPresent(place, true)
        raise(place, scope, to: (arrival.held, client.active ?? 0), at: now)
        tellOfArrival(place, scope, before: before, at: now)
        rollouts.comeBack(&table.entries[place], scope, topics)
        rollouts.enter(&table.entries[place], arrival, weight: table.weight, at: now)
    }

    /// A client moved to the topics of its stage. Loops move their clients a moment after a release has split them, so
    /// its first stage was gathered by the topics of before.
    mutating func moved(
        _ key: UInt64, to topics: Set<Topic.Index>, in scope: Scope, by version: VersionNumber, at now: UInt64
    ) {
        gather()
        guard let place = table.place(of: key) else { return }
        let number = names.number(of: topics, in: &table, at: tenths(now))
        table.entries[place].topics = number
        guard table.entries[place].scope == names.number(known: scope) else { return }
        rollouts.move(&table.entries[place], to: topics, in: scope, by: version, weight: table.weight, at: now)
    }

    mutating func left(_ key: UInt64, isPoll: Bool, untold: CommitSequence?, at now: UInt64) {
        gather()
        guard let place = table.place(of: key) else { return }
        if isPoll, 1..<UInt16.max ~= table.entries[place].polls { table.entries[place].polls -= 1 }
        if !isPoll, 1..<UInt16.max ~= table.entries[place].streams { table.entries[place].streams -= 1 }
        table.entries[place].seen = tenths(now)
        guard !table.entries[place].isLive else { return }
        if let untold { part(place, at: now) { $0.sequence >= untold ? false : nil } }
        guard !table.entries[place].isLeaving else { return }
        table.entries[place].isLeaving = true
        departures.append((key, tenths(now)))
    }

    /// Notes a client that got an answer of a version. Without a stream a client belongs to no audience.
    mutating func fetched(
        _ client: ClientIdentity?, _ scope: Scope, _ version: VersionNumber, seconds: Double,
        address: (key: UInt64, isLimited: Bool), at now: UInt64
    ) {
        rollouts.answered(scope, at: now)
        var place: Int?
        if let client {
            gather()
            place = self.place(of: client, scope, address, at: now)
        }
        var counted = 0
        if let place, table.entries[place].countsFetch() { counted = table.weight }
        if let index = loads.index(forKey: scope) {
            loads.values[index].answered(in: seconds, counting: counted, at: now)
        }
        guard let client, let place else { return }
        raise(place, scope, to: (version, client.active ?? 0), at: now)
    }

    /// Another node tells of a client that may be known here. Of two nodes that count it one goes on: where this one
    /// should, it tells the other.
    mutating func seenElsewhere(_ foreignFetch: RolloutTracker.ForeignFetch, at now: UInt64) {
        // Another node may be ahead: its news of a version waits until the version is announced here.
        if foreignFetch.fetched > rollouts.newest(of: foreignFetch.scope) {
            if early.count < Sightings.most { early.append(foreignFetch) }
            return
        }
        gather()
        guard let place = table.place(of: foreignFetch.key) else { return }
        let (before, fetched) = (table.entries[place], UInt32(clamping: foreignFetch.fetched.rawValue))
        raise(place, foreignFetch.scope, to: (foreignFetch.fetched, foreignFetch.active), at: now, isHeard: true)
        let failed = UInt32(clamping: min(foreignFetch.failed, rollouts.newest(of: foreignFetch.scope)).rawValue)
        if failures.hear(failed, of: foreignFetch.key, active: table.entries[place].active) {
            tell(place, foreignFetch.scope)
        }
        if let isHere = foreignFetch.isHere {
            move(place, to: names.number(ofNode: foreignFetch.node), isThere: isHere, at: now)
        }
        guard foreignFetch.isCounted, before.fetched > 0, before.fetched >= fetched, !before.isCountedElsewhere else {
            return
        }
        if foreignFetch.wins, before.fetched == fetched {
            table.entries[place].isCountedElsewhere = true
        } else {
            tell(place, foreignFetch.scope)
        }
    }

    /// A client listens at another node, which it came to after the announcement, or has left that one too. Until then
    /// it is awaited here, where it belongs to the audience.
    private mutating func move(_ place: Int, to node: UInt16, isThere: Bool, at now: UInt64) {
        let entry = table.entries[place]
        if isThere {
            table.entries[place].node = node
            table.entries[place].seen = tenths(now)
            rollouts.comeBack(&table.entries[place], names.scope(entry.scope), names.topics(entry.topics))
        } else if entry.node == node {
            table.entries[place].node = 0
            if !entry.isPresent { part(place, at: now) }
        }
    }

    /// Other nodes than these are gone: clients that listened at one of them, and come to no other, are gone too.
    mutating func forgetElsewhere(allBut nodes: Set<String>, at now: UInt64) {
        gather()
        let numbers = names.forget(allBut: nodes)
        early.removeAll { !nodes.contains($0.node) }
        for place in table.entries.indices where numbers.contains(table.entries[place].node) {
            table.entries[place].node = 0
            guard !table.entries[place].isLive, !table.entries[place].isLeaving else { continue }
            table.entries[place].isLeaving = true
            departures.append((table.keys[place], tenths(now)))
        }
    }

    mutating func refused(_ scope: Scope, status: Int, at now: UInt64) {
        rollouts.refused(scope)
        loads[scope]?.refused(status: status, at: now)
    }

    /// - Returns: whether the client's word was believed.
    mutating func claimed(
        _ key: UInt64, _ scope: Scope, _ claim: ClientReport, address: (key: UInt64, isLimited: Bool), at now: UInt64
    ) -> Bool {
        leave(at: now)
        guard let place = table.place(of: key),
            table.entries[place].isPresent || tenths(now) - table.entries[place].seen <= Self.credence
        else { return false }
        switch claim.state {
        case .fetched: raise(place, scope, to: (claim.version, 0), at: now)
        case .active: raise(place, scope, to: (claim.version, claim.version), at: now)
        case .failed:
            let version = UInt32(clamping: min(claim.version, rollouts.newest(of: scope)).rawValue)
            let isTaken = failures.report(
                version, claim.error, of: key, from: address.isLimited ? address.key : nil, at: tenths(now))
            guard isTaken else { return false }
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
                let label = names.label(of: client, over: place, in: &table, at: tenths(now))
                table.entries[place].label = label
            }
            return place
        }
        guard !address.isLimited || table.newIDs.takes(address.key, at: tenths(now)) else { return nil }
        let label = table.keepsNames ? names.label(of: client, over: nil, in: &table, at: tenths(now)) : 0
        let entry = ClientTable.Entry(seen: tenths(now), scope: names.number(of: scope), label: label)
        let (place, hasShrunk) = table.add(key, entry, id: client.id, address: address.key)
        if hasShrunk { recount() }
        return place
    }

    /// Raises a client to newer versions; older ones change nothing.
    private mutating func raise(
        _ place: Int, _ scope: Scope, to versions: (fetched: VersionNumber, active: VersionNumber), at now: UInt64,
        isHeard: Bool = false
    ) {
        let before = table.entries[place]
        // Most fetches bring nothing new. Then the newest version is not looked up.
        guard versions.fetched.rawValue > before.fetched || versions.active.rawValue > before.active else { return }
        let most = rollouts.newest(of: scope)
        let active = UInt32(clamping: min(versions.active, most).rawValue)
        let fetched = max(UInt32(clamping: min(versions.fetched, most).rawValue), active)
        guard fetched > before.fetched || active > before.active else { return }
        table.entries[place].fetched = max(before.fetched, fetched)
        table.entries[place].active = max(before.active, active)
        if fetched > before.fetched { table.entries[place].isCountedElsewhere = isHeard }
        if !isHeard { sight(place, scope) }
        failures.end(of: table.keys[place], active: active)
        rollouts.raise(&table.entries[place], from: before, in: scope, weight: table.weight, at: now)
    }

    // MARK: Time

    /// Counts the clients that wait to be counted, and forgets those that are gone for too long. Call it before counts
    /// are read.
    mutating func leave(at now: UInt64) {
        depart(at: now)
        // Every ten minutes.
        let time = tenths(now)
        if time > lastSweep + 6000 { forget(at: time) }
    }

    private mutating func depart(at now: UInt64) {
        gather()
        let time = tenths(now)
        while let first = departures.first, first.at + Self.absence < time {
            departures.removeFirst()
            guard let place = table.place(of: first.key) else { continue }
            table.entries[place].isLeaving = false
            if table.entries[place].isLive { continue }
            if table.entries[place].seen + Self.absence >= time {
                table.entries[place].isLeaving = true
                departures.append((first.key, table.entries[place].seen))
            } else {
                let wasHere = table.entries[place].isPresent
                table.setPresent(place, false)
                if table.entries[place].isElsewhere { continue }
                part(place, at: now)
                // All nodes know that another one ended, with the clients that listened there.
                if wasHere { sight(place, names.scope(table.entries[place].scope), hasLeft: true) }
            }
        }
    }

    /// A client that is gone leaves the audiences of versions that it does not have.
    private mutating func part(_ place: Int, at now: UInt64) {
        let (seen, fetched) = (table.entries[place].seen, table.entries[place].fetched)
        // It may have been gone at the announcement; after a restart it may have the version and not have said so.
        part(place, at: now) { [began] in
            !($0.isPartial && fetched == 0) && seen >= Self.tenths($0.startedAt, since: began)
        }
    }

    /// A client leaves the audiences of versions that it does not have, see ``ScopeRollouts``.
    private mutating func part(_ place: Int, at now: UInt64, wasTold: (VersionRollout) -> Bool?) {
        let scope = names.scope(table.entries[place].scope)
        rollouts.part(&table.entries[place], in: scope, weight: table.weight, at: now, wasTold: wasTold)
    }

    private mutating func forget(at time: UInt32) {
        lastSweep = time
        let oldest = time > Self.memory ? time - Self.memory : 0
        if table.entries.contains(where: { !$0.isPresent && $0.seen < oldest }) {
            table.keep { $1.isPresent || $1.seen >= oldest }
            failures.keep { [table] in table.place(of: $0) != nil }
        }
        table.growSample()
    }

    /// The sample became smaller: everything is counted again in it.
    private mutating func recount() {
        for scope in rollouts.scopes {
            let number = names.number(of: scope)
            rollouts.recount(table.entries.filter { $0.scope == number }, in: scope)
        }
    }

    mutating func note(_ record: VersionRollout.Record, of index: Int, in scope: Scope) {
        rollouts.note(record, of: index, in: scope)
    }
}
