import StalecastWire

/// Versions of one scope that one webhook is owed.
///
/// Nothing here says what is planned: ``next(_:at:_:_:)`` tells it anew from the cursor, what was begun, and the log.
///
/// Longer than other files: the fields must agree after every fact, and stay private to what keeps them so.
struct Lane: Sendable {
    let scope: Scope
    private(set) var record: JournalEntry.LaneRecord
    /// Settled out of order, beyond the cursor.
    private(set) var beyond: [CommitSequence: VersionNumber]
    /// Sent again on request besides what the cursor says; ascending.
    private(set) var extras: SequenceSet
    /// Attempts that were begun and are not settled: under way, or waiting for the next one; ascending.
    private(set) var tries: [Try] = []
    /// Everything up to here is settled, begun, or concerns no webhook here. In mode `latest` it only says how far the
    /// store was searched for ``newest``.
    private(set) var frontier: ScopeLog.Place
    /// The newest change one of the webhook's topics announced.
    private(set) var newest: ScopeLog.Heard?
    /// Sequence of the last change that ``hear(_:_:)`` took. A ``newest`` with another one was found in the store, where a
    /// newer one may follow.
    private var announced: CommitSequence = 0
    /// False while no topic of the webhook is about the scope: then it keeps its place and waits.
    var isActive = true
    /// The read under way, by number, and what it begins after.
    var reading: (id: UInt64, after: CommitSequence)?
    /// No attempt begins earlier, for ``WebhookLimits/minInterval``; no read after one that failed.
    private var notBefore: UInt64 = 0
    private var rereadAt: UInt64 = 0
    private var page: ScopeLog.Page?
    /// Search for ``newest`` among versions that were passed over and not taken, after the webhook's terms have
    /// changed.
    private var search: Search?
    private var journaled: CommitSequence

    /// One version that was begun.
    struct Try: Sendable {
        let heard: ScopeLog.Heard
        var attempts = 0
        /// Monotonic time of the first attempt; 0 before.
        var firstAt: UInt64 = 0
        var notBefore: UInt64 = 0
        /// The attempt under way.
        var attempt: UInt64?

        var sequence: CommitSequence { heard.sequence }
    }

    private struct Search {
        var place: ScopeLog.Place
        var found: ScopeLog.Heard?
    }

    /// Versions that the store has removed before they were begun.
    struct Gap {
        let after: ScopeLog.Place
        let through: ScopeLog.Place
        /// Versions that may be among them and were settled out of order.
        let settled: Set<VersionNumber>
    }

    /// Next step of a lane.
    enum Next: Sendable {
        case send(ScopeLog.Heard)
        case read(after: CommitSequence)
        case wait(UInt64)
        case nothing
    }

    /// Versions that are read at once, and that may have failed at once in mode `all`.
    static let window = 256

    init(_ scope: Scope, _ stored: DeliveryImage.StoredLane) {
        self.scope = scope
        record = stored.record
        beyond = stored.beyond.filter { $0.key > stored.record.cursor.sequence }
        extras = SequenceSet(stored.extras)
        frontier = record.cursor
        journaled = record.cursor.sequence
    }

    var inFlight: Int { tries.count { $0.attempt != nil } }

    /// The versions the receiver has not acknowledged, at least.
    var lag: Int64 {
        guard let newest = newest?.change ?? tries.last?.heard.change, newest.sequence > record.cursor.sequence else {
            return 0
        }
        return max(1, newest.version - record.cursor.version)
    }

    /// The newest version that one of the webhook's topics announced, as far as that is known: after a restart it may
    /// be older than the log in memory, and then it is what the receiver has.
    var current: VersionNumber? {
        if let known = newest?.change.version { return known }
        let begun = tries.last?.heard.change.version ?? 0
        let latest = max(begun, record.acknowledged.version)
        return latest > 0 ? latest : nil
    }

    /// The last version the receiver took, or that needed none.
    var acknowledged: VersionNumber {
        record.givenUp == record.cursor.sequence ? record.acknowledged.version : record.cursor.version
    }

    /// Whether nothing can be next in mode `latest`: the newest version is known, and is under way or not owed. Versions
    /// that were passed over can wait for the next announcement, which sets ``newest`` itself.
    var isQuiet: Bool {
        guard let newest, search == nil, extras.isEmpty, beyond.isEmpty else { return false }
        return newest.sequence <= record.cursor.sequence || inFlight > 0
    }

    // MARK: What is next

    /// Takes a change that one of the webhook's topics announces. It is the last one of the log.
    mutating func hear(_ heard: ScopeLog.Heard, _ mode: DeliveryMode) {
        newest = heard
        announced = heard.sequence
        if mode == .latest { frontier = ScopeLog.Place(heard.change) }
    }

    /// Version that mode `latest` sends at once, found without a look at the log: it was announced in this run, so that it
    /// is the newest there is, and nothing of an earlier one is left. nil where ``next(_:at:_:_:)`` must tell.
    func plain(at now: UInt64) -> ScopeLog.Heard? {
        guard let newest, newest.sequence == announced, newest.sequence > record.cursor.sequence, isActive,
            tries.isEmpty, extras.isEmpty, beyond.isEmpty, search == nil, reading == nil, notBefore <= now
        else { return nil }
        return newest
    }

    /// Next step at `now`, if any; the same facts always give the same answer. See ``advance(_:_:_:)``.
    func next(_ mode: DeliveryMode, at now: UInt64, _ log: ScopeLog, _ interest: ScopeLog.Interest) -> Next {
        guard isActive else { return .nothing }
        if let search { return read(after: search.place.sequence, at: now) }
        let next = mode == .latest ? nextOfLatest(at: now, log) : nextInOrder(mode, at: now, log, interest)
        if case .send = next, notBefore > now { return .wait(notBefore) }
        return next
    }

    private func nextOfLatest(at now: UInt64, _ log: ScopeLog) -> Next {
        guard inFlight == 0 else { return .nothing }
        let isOwed = newest.map { $0.sequence > record.cursor.sequence || !extras.isEmpty } ?? true
        // A newer one may be in the store: the end of a page is not the end.
        if isOwed, case .unread = known(after: frontier.sequence, log) {
            return read(after: frontier.sequence, at: now)
        }
        return isOwed ? newest.map { .send($0) } ?? .nothing : .nothing
    }

    private func nextInOrder(
        _ mode: DeliveryMode, at now: UInt64, _ log: ScopeLog, _ interest: ScopeLog.Interest
    ) -> Next {
        if mode == .all {
            if let due = tries.first(where: { $0.attempt == nil && $0.notBefore <= now }) { return .send(due.heard) }
        } else {
            guard inFlight == 0 else { return .nothing }
        }
        let fresh = tries.count < Self.window ? nextFresh(at: now, log, interest) : nil
        guard let waiting = soonest(mode) else { return fresh?.next ?? .nothing }
        let retry = waiting.notBefore <= now ? Next.send(waiting.heard) : .wait(waiting.notBefore)
        guard let fresh else { return retry }
        if mode != .all { return fresh.sequence < waiting.sequence ? fresh.next : retry }
        return switch fresh.next {
        case .send, .read: fresh.next
        case .nothing: retry
        case .wait(let time): .wait(min(time, waiting.notBefore))
        }
    }

    /// Unless one is under way, or has failed just now.
    private func read(after sequence: CommitSequence, at now: UInt64) -> Next {
        if reading != nil { return .nothing }
        return rereadAt > now ? .wait(rereadAt) : .read(after: sequence)
    }

    /// Waiting attempt that counts: in order the first, else the earliest.
    private func soonest(_ mode: DeliveryMode) -> Try? {
        let waiting = tries.lazy.filter { $0.attempt == nil }
        return mode == .all ? waiting.min { $0.notBefore < $1.notBefore } : waiting.first
    }

    /// The first version that was not begun yet; a read counts as the first one it can bring.
    private func nextFresh(
        at now: UInt64, _ log: ScopeLog, _ interest: ScopeLog.Interest
    ) -> (sequence: CommitSequence, next: Next)? {
        var found: (sequence: CommitSequence, next: Next)?
        switch known(after: frontier.sequence, log) {
        case .unread: found = (frontier.sequence + 1, read(after: frontier.sequence, at: now))
        case .change(let change, let time):
            if let topic = interest.topic(of: change) {
                found = (change.sequence, .send(ScopeLog.Heard(change: change, topic: topic, announcedAt: time)))
            }
        case .end: break
        }
        guard let extra = freshExtra, extra < found?.sequence ?? .max else { return found }
        guard case .change(let change, _) = known(after: extra - 1, log) else {
            return (extra, read(after: extra - 1, at: now))
        }
        let topic = interest.topic(of: change) ?? interest.topics.first ?? .pushRC
        return (extra, .send(ScopeLog.Heard(change: change, topic: topic, announcedAt: 0)))
    }

    private var freshExtra: CommitSequence? { extras.first { place(of: $0) == nil } }

    private func known(after sequence: CommitSequence, _ log: ScopeLog) -> ScopeLog.Known {
        log.known(after: sequence, page)
    }

    // MARK: What is passed over

    /// Goes on past what needs no attempt, as far as that is known; to be called before ``next(_:at:_:_:)``.
    ///
    /// - Returns: extras that the store has not kept, what became one, and whether the cursor has moved so far that it
    ///   should be written.
    mutating func advance(
        _ mode: DeliveryMode, _ log: ScopeLog, _ interest: ScopeLog.Interest
    ) -> (lost: [CommitSequence], found: CommitSequence?, isFar: Bool) {
        guard isActive else { return ([], nil, false) }
        if mode == .latest { prepareLatest() }
        let found = searchOn(mode, log, interest)
        guard search == nil else { return ([], nil, false) }
        let unknown = mode == .latest ? dropExtrasOfNothing() : []
        while case .change(let change, let time) = known(after: frontier.sequence, log) {
            if mode == .latest {
                if change.sequence > newest?.sequence ?? 0, let topic = interest.topic(of: change) {
                    newest = ScopeLog.Heard(change: change, topic: topic, announcedAt: time)
                }
            } else if beyond[change.sequence] == nil, place(of: change.sequence) == nil,
                interest.topic(of: change) != nil
            {
                break
            }
            frontier = ScopeLog.Place(change)
        }
        if mode == .latest {
            // Settled under other terms.
            if let newest, beyond[newest.sequence] != nil, !extras.contains(newest.sequence) {
                move(to: ScopeLog.Place(newest.change))
            }
            return (unknown, found, false)
        }
        collapse()
        return (dropLostExtras(log), found, record.cursor.sequence >= journaled + 64)
    }

    /// Prepares mode `latest`: nothing before ``newest`` need be read, and when something is owed again the newest
    /// version is looked for, which after a restart may be older than the log.
    private mutating func prepareLatest() {
        if let newest {
            if newest.sequence > frontier.sequence { frontier = ScopeLog.Place(newest.change) }
        } else if search == nil, let first = extras.first, first <= record.cursor.sequence {
            search = Search(place: ScopeLog.Place(version: 0, sequence: first - min(first, 1)))
        }
    }

    /// The letters up to the cursor, when the store has no version that could be sent for them.
    private mutating func dropExtrasOfNothing() -> [CommitSequence] {
        guard newest == nil else { return [] }
        let lost = extras.through(record.cursor.sequence)
        for extra in lost { extras.remove(extra) }
        return lost
    }

    /// Looks for the newest version up to the cursor, as far as that is known.
    ///
    /// - Returns: what became an extra because it was found.
    private mutating func searchOn(_ mode: DeliveryMode, _ log: ScopeLog, _ interest: ScopeLog.Interest)
        -> CommitSequence?
    {
        guard var search else { return nil }
        while newest == nil, search.place.sequence < record.cursor.sequence {
            switch known(after: search.place.sequence, log) {
            case .unread:
                self.search = search
                return nil
            case .change(let change, let time):
                if let topic = interest.topic(of: change) {
                    search.found = ScopeLog.Heard(change: change, topic: topic, announcedAt: time)
                }
                search.place = ScopeLog.Place(change)
            case .end: search.place = record.cursor
            }
        }
        self.search = nil
        // Something newer was announced meanwhile.
        guard newest == nil, let found = search.found else { return nil }
        newest = found
        return oweNewest(mode, refused: record.givenUp)
    }

    /// Removes the extras at the front that were looked for and are not stored; returns them.
    private mutating func dropLostExtras(_ log: ScopeLog) -> [CommitSequence] {
        var lost: [CommitSequence] = []
        while let extra = freshExtra {
            switch known(after: extra - 1, log) {
            case .unread: return lost
            case .change(let change, _) where change.sequence == extra: return lost
            case .change, .end:
                lost.append(extra)
                extras.remove(extra)
            }
        }
        return lost
    }

    /// The cursor follows: to just before what was begun first, or as far as was looked.
    private mutating func collapse() {
        let first = tries.first { $0.sequence > record.cursor.sequence && !extras.contains($0.sequence) }
        let begun = first.map { ScopeLog.Place(before: $0.heard.change) } ?? frontier
        move(to: begun.sequence < frontier.sequence ? begun : frontier)
    }

    private mutating func move(to place: ScopeLog.Place) {
        guard place.sequence > record.cursor.sequence else { return }
        record.cursor = place
        if !beyond.isEmpty { beyond = beyond.filter { $0.key > place.sequence } }
    }

    /// The record as it is to be written now.
    mutating func recordToWrite() -> JournalEntry.LaneRecord {
        journaled = record.cursor.sequence
        return record
    }

    // MARK: Attempts

    /// - Returns: which attempt of that version it is, from 1.
    mutating func begin(
        _ heard: ScopeLog.Heard, _ attempt: UInt64, _ mode: DeliveryMode, at now: UInt64, interval: UInt64
    ) -> Int {
        notBefore = now + interval
        if mode == .latest { tries.removeAll { $0.attempt == nil && $0.sequence != heard.sequence } }
        let index = tries.firstIndex { $0.sequence >= heard.sequence } ?? tries.count
        if index == tries.count || tries[index].sequence != heard.sequence {
            tries.insert(Try(heard: heard), at: index)
            // What was begun before may be ahead of the frontier, with others between them.
            if mode != .latest, heard.sequence > frontier.sequence, !extras.contains(heard.sequence) {
                frontier = ScopeLog.Place(heard.change)
            }
        }
        tries[index].attempts += 1
        if tries[index].firstAt == 0 { tries[index].firstAt = now }
        tries[index].attempt = attempt
        return tries[index].attempts
    }

    /// Forgets an attempt that ended without a result for its version; the version stays owed.
    mutating func forget(_ sequence: CommitSequence) {
        guard let index = place(of: sequence) else { return }
        let change = tries.remove(at: index).heard.change
        if sequence > record.cursor.sequence, sequence <= frontier.sequence {
            frontier = ScopeLog.Place(before: change)
        }
    }

    /// Takes back an attempt that never began or must be repeated: its version is due again at `time`.
    mutating func hold(_ sequence: CommitSequence, until time: UInt64) {
        guard let index = place(of: sequence) else { return }
        tries[index].attempt = nil
        tries[index].notBefore = time
    }

    func begun(_ sequence: CommitSequence) -> Try? { place(of: sequence).map { tries[$0] } }

    /// A version is done with: taken by the receiver, or given up.
    ///
    /// - Parameter folds: it stands for all before it.
    /// - Returns: what of it is no extra any more, and whether it was settled beyond the cursor.
    mutating func settle(
        _ change: TemplateChange, isAcknowledged: Bool, folds: Bool
    ) -> (extras: [CommitSequence], isBeyond: Bool) {
        let sequence = change.sequence
        if let index = place(of: sequence) { tries.remove(at: index) }
        if isAcknowledged {
            if sequence > record.acknowledged.sequence { record.acknowledged = ScopeLog.Place(change) }
        } else {
            record.givenUp = max(record.givenUp, sequence)
        }
        var ended = extras.contains(sequence) ? [sequence] : []
        if folds {
            ended = extras.through(sequence == newest?.sequence ? .max : sequence)
            tries.removeAll { $0.attempt == nil && $0.sequence < sequence }
            move(to: ScopeLog.Place(change))
            if frontier.sequence < sequence { frontier = ScopeLog.Place(change) }
        } else if sequence > record.cursor.sequence {
            beyond[sequence] = change.version
            collapse()
        }
        for extra in ended { extras.remove(extra) }
        return (ended, beyond[sequence] != nil)
    }

    // MARK: The store's answer

    /// Takes what was read.
    ///
    /// - Parameter oldest: the first change that is stored; nil when the store could not be read.
    /// - Returns: versions that were pruned, and what became an extra because of it.
    mutating func read(
        oldest: TemplateChange?, _ changes: [TemplateChange], _ mode: DeliveryMode, retryAt: UInt64
    ) -> (gap: Gap?, extras: [CommitSequence]) {
        guard let after = reading?.after else { return (nil, []) }
        reading = nil
        // The newest version is always kept.
        guard let oldest, let last = changes.last else {
            rereadAt = retryAt
            return (nil, [])
        }
        // What was published since the read is after the page, however far the log has gone on.
        page = ScopeLog.Page(after: after, through: last.sequence, changes: changes)
        guard mode != .latest, search == nil, after == frontier.sequence, oldest.sequence > after + 1 else {
            return (nil, [])
        }
        let gap = Gap(after: frontier, through: ScopeLog.Place(before: oldest), settled: Set(beyond.values))
        frontier = gap.through
        guard gap.through.version > gap.after.version else {
            collapse()
            return (nil, [])
        }
        // What was begun before the gap is no part of the cursor any more.
        let begun = tries.map(\.sequence).filter { $0 > record.cursor.sequence && !extras.contains($0) }
        for sequence in begun { extras.insert(sequence) }
        move(to: frontier)
        return (gap, begun)
    }

    // MARK: Changes of what is wanted

    /// Its mode, topics or receiver have changed, or it begins: what was begun under other terms counts no more, and is
    /// derived anew from the cursor.
    ///
    /// - Parameter isMoved: there is another receiver, which knows nothing.
    /// - Returns: what became an extra: the newest version, where it was passed over and may be wanted now.
    mutating func rederive(
        _ mode: DeliveryMode, from former: DeliveryMode, isMoved: Bool, _ log: ScopeLog, _ interest: ScopeLog.Interest
    ) -> CommitSequence? {
        if former == .latest, mode != .latest, let last = tries.last {
            move(to: ScopeLog.Place(before: last.heard.change))
        }
        tries.removeAll { begun in
            begun.attempt == nil
                && (isMoved || mode != former
                    || !extras.contains(begun.sequence) && interest.topic(of: begun.heard.change) == nil)
        }
        if mode == .latest { move(to: record.acknowledged) }
        frontier = record.cursor
        page = nil
        findNewest(mode, log, interest)
        let refused = isMoved ? 0 : record.givenUp
        if isMoved { record.givenUp = 0 }
        // It may be where the log does not reach any more.
        let isHidden = newest == nil && record.acknowledged.sequence < min(record.cursor.sequence, log.startsAfter)
        search = isHidden ? Search(place: record.acknowledged) : nil
        return oweNewest(mode, refused: refused)
    }

    /// The newest version is owed where it was passed over and is not the one that was refused.
    private mutating func oweNewest(_ mode: DeliveryMode, refused: CommitSequence) -> CommitSequence? {
        guard let newest else { return nil }
        if newest.sequence == refused {
            if mode == .latest { move(to: ScopeLog.Place(newest.change)) }
            return nil
        }
        guard newest.sequence > record.acknowledged.sequence,
            newest.sequence <= record.cursor.sequence || beyond[newest.sequence] != nil,
            !extras.contains(newest.sequence)
        else { return nil }
        extras.insert(newest.sequence)
        return newest.sequence
    }

    mutating func findNewest(_ mode: DeliveryMode, _ log: ScopeLog, _ interest: ScopeLog.Interest) {
        let former = newest
        newest = nil
        for (change, time) in log.entries.reversed() {
            guard let topic = interest.topic(of: change) else { continue }
            newest = ScopeLog.Heard(change: change, topic: topic, announcedAt: time)
            break
        }
        if newest == nil, let former, let topic = interest.topic(of: former.change) {
            newest = ScopeLog.Heard(change: former.change, topic: topic, announcedAt: former.announcedAt)
        }
        // Else it may be among the older ones in the store.
        if mode == .latest, newest != nil { frontier = log.end }
    }

    /// A version of the scope is the first one ever, so that nothing before it can have been missed.
    mutating func begins(before change: TemplateChange) -> Bool {
        guard tries.isEmpty, record.cursor.sequence < change.sequence - 1 else { return false }
        record.cursor = ScopeLog.Place(before: change)
        frontier = record.cursor
        return true
    }

    /// Owes stored versions again; those that are owed anyway need no extra.
    ///
    /// - Parameter sequences: ascending.
    /// - Returns: those that became extras.
    mutating func owe(_ sequences: [CommitSequence], _ mode: DeliveryMode) -> [CommitSequence] {
        let wanted = sequences.filter { sequence in
            (mode == .latest || sequence <= record.cursor.sequence || beyond[sequence] != nil)
                && !extras.contains(sequence)
        }
        extras.merge(wanted)
        return wanted
    }

    /// Makes attempts due that wait only because earlier ones failed.
    mutating func hurry() {
        for index in tries.indices { tries[index].notBefore = 0 }
        rereadAt = 0
    }

    private func place(of sequence: CommitSequence) -> Int? { tries.firstIndex { $0.sequence == sequence } }
}
