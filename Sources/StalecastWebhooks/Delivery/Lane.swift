import StalecastWire

/// Versions of one scope that one webhook is owed.
///
/// Nothing here says what is planned: ``next(_:at:_:_:)`` tells it anew from the cursor, what was begun, and the log.
struct Lane: Sendable {
    let scope: Scope
    private(set) var record: JournalEntry.LaneRecord
    /// Settled out of order, beyond the cursor.
    private(set) var beyond: [CommitSequence: VersionNumber]
    /// Sent again on request besides what the cursor says; ascending.
    private(set) var extras: SequenceSet
    private(set) var tries = Tries()
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
    var reads = LaneReads()
    /// No attempt begins earlier, for ``WebhookLimits/minInterval``.
    private var notBefore: UInt64 = 0
    /// Search for ``newest`` among versions that were passed over and not taken, after the webhook's terms have
    /// changed.
    private var search: NewestSearch?
    private var journaled: CommitSequence

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

    var inFlight: Int { tries.inFlight }

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
            tries.isEmpty, extras.isEmpty, beyond.isEmpty, search == nil, reads.current == nil, notBefore <= now
        else { return nil }
        return newest
    }

    /// Next step at `now`, if any; the same facts always give the same answer. See ``advance(_:_:_:)``.
    func next(_ mode: DeliveryMode, at now: UInt64, _ log: ScopeLog, _ interest: ScopeLog.Interest) -> Next {
        guard isActive else { return .nothing }
        if let search { return reads.next(after: search.place.sequence, at: now) }
        let next = mode == .latest ? nextOfLatest(at: now, log) : nextInOrder(mode, at: now, log, interest)
        if case .send = next, notBefore > now { return .wait(notBefore) }
        return next
    }

    private func nextOfLatest(at now: UInt64, _ log: ScopeLog) -> Next {
        guard inFlight == 0 else { return .nothing }
        let isOwed = newest.map { $0.sequence > record.cursor.sequence || !extras.isEmpty } ?? true
        // A newer one may be in the store: the end of a page is not the end.
        if isOwed, case .unread = reads.known(after: frontier.sequence, log) {
            return reads.next(after: frontier.sequence, at: now)
        }
        return isOwed ? newest.map { .send($0) } ?? .nothing : .nothing
    }

    private func nextInOrder(
        _ mode: DeliveryMode, at now: UInt64, _ log: ScopeLog, _ interest: ScopeLog.Interest
    ) -> Next {
        if mode == .all {
            if let due = tries.firstDue(at: now) { return .send(due.heard) }
        } else {
            guard inFlight == 0 else { return .nothing }
        }
        let fresh = tries.all.count < Self.window ? nextFresh(at: now, log, interest) : nil
        guard let waiting = tries.soonest(mode) else { return fresh?.next ?? .nothing }
        let retry = waiting.notBefore <= now ? Next.send(waiting.heard) : .wait(waiting.notBefore)
        guard let fresh else { return retry }
        if mode != .all { return fresh.sequence < waiting.sequence ? fresh.next : retry }
        return switch fresh.next {
        case .send, .read: fresh.next
        case .nothing: retry
        case .wait(let time): .wait(min(time, waiting.notBefore))
        }
    }

    /// The first version that was not begun yet; a read counts as the first one it can bring.
    private func nextFresh(
        at now: UInt64, _ log: ScopeLog, _ interest: ScopeLog.Interest
    ) -> (sequence: CommitSequence, next: Next)? {
        var found: (sequence: CommitSequence, next: Next)?
        switch reads.known(after: frontier.sequence, log) {
        case .unread: found = (frontier.sequence + 1, reads.next(after: frontier.sequence, at: now))
        case .change(let change, let time):
            found = interest.heard(change, at: time).map { ($0.sequence, .send($0)) }
        case .end: break
        }
        guard let extra = freshExtra, extra < found?.sequence ?? .max else { return found }
        guard case .change(let change, _) = reads.known(after: extra - 1, log) else {
            return (extra, reads.next(after: extra - 1, at: now))
        }
        let topic = interest.topic(of: change) ?? interest.topics.first ?? .pushRC
        return (extra, .send(ScopeLog.Heard(change: change, topic: topic, announcedAt: 0)))
    }

    private var freshExtra: CommitSequence? { extras.first { tries[$0] == nil } }

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
        while case .change(let change, let time) = reads.known(after: frontier.sequence, log) {
            if mode == .latest {
                if change.sequence > newest?.sequence ?? 0 { newest = interest.heard(change, at: time) ?? newest }
            } else if beyond[change.sequence] == nil, tries[change.sequence] == nil,
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
            search = NewestSearch(place: ScopeLog.Place(version: 0, sequence: first - min(first, 1)))
        }
    }

    /// The letters up to the cursor, when the store has no version that could be sent for them.
    private mutating func dropExtrasOfNothing() -> [CommitSequence] {
        guard newest == nil else { return [] }
        return extras.remove(through: record.cursor.sequence)
    }

    /// Looks for the newest version up to the cursor, as far as that is known.
    ///
    /// - Returns: what became an extra because it was found.
    private mutating func searchOn(
        _ mode: DeliveryMode, _ log: ScopeLog, _ interest: ScopeLog.Interest
    ) -> CommitSequence? {
        guard var search else { return nil }
        if newest == nil, !search.goOn(to: record.cursor, reads, log, interest) {
            self.search = search
            return nil
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
            switch reads.known(after: extra - 1, log) {
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
        let first = tries.all.first { $0.sequence > record.cursor.sequence && !extras.contains($0.sequence) }
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
        if mode == .latest { tries.removeWaiting { $0.sequence != heard.sequence } }
        let (number, isNew) = tries.begin(heard, attempt, at: now)
        // What was begun before may be ahead of the frontier, with others between them.
        if isNew, mode != .latest, heard.sequence > frontier.sequence, !extras.contains(heard.sequence) {
            frontier = ScopeLog.Place(heard.change)
        }
        return number
    }

    /// Forgets an attempt that ended without a result for its version; the version stays owed.
    mutating func forget(_ sequence: CommitSequence) {
        guard let change = tries.remove(sequence) else { return }
        if sequence > record.cursor.sequence, sequence <= frontier.sequence {
            frontier = ScopeLog.Place(before: change)
        }
    }

    mutating func hold(_ sequence: CommitSequence, until time: UInt64) { tries.hold(sequence, until: time) }

    /// A version is done with: taken by the receiver, or given up.
    ///
    /// - Parameter folds: it stands for all before it.
    /// - Returns: what of it is no extra any more, and whether it was settled beyond the cursor.
    mutating func settle(
        _ change: TemplateChange, isAcknowledged: Bool, folds: Bool
    ) -> (extras: [CommitSequence], isBeyond: Bool) {
        let sequence = change.sequence
        tries.remove(sequence)
        if isAcknowledged {
            if sequence > record.acknowledged.sequence { record.acknowledged = ScopeLog.Place(change) }
        } else {
            record.givenUp = max(record.givenUp, sequence)
        }
        var ended: [CommitSequence] = []
        if folds {
            // The newest version stands for every extra, also for those that the store has beyond it.
            ended = extras.remove(through: sequence == newest?.sequence ? .max : sequence)
            tries.removeWaiting { $0.sequence < sequence }
            move(to: ScopeLog.Place(change))
            if frontier.sequence < sequence { frontier = ScopeLog.Place(change) }
        } else {
            if extras.remove(sequence) { ended = [sequence] }
            if sequence > record.cursor.sequence {
                beyond[sequence] = change.version
                collapse()
            }
        }
        return (ended, beyond[sequence] != nil)
    }

    // MARK: The store's answer

    /// Takes what was read.
    ///
    /// - Parameter oldest: the first change that is stored; nil when the store could not be read.
    /// - Returns: versions that were pruned, and what became an extra because of it.
    mutating func read(
        oldest: TemplateChange?, _ changes: [TemplateChange], _ mode: DeliveryMode, retryAt: UInt64
    ) -> (gap: LaneGap?, extras: [CommitSequence]) {
        guard let (after, oldest) = reads.end(oldest: oldest, changes, retryAt: retryAt) else { return (nil, []) }
        guard mode != .latest, search == nil, after == frontier.sequence, oldest.sequence > after + 1 else {
            return (nil, [])
        }
        let gap = LaneGap(after: frontier, through: ScopeLog.Place(before: oldest), settled: Set(beyond.values))
        frontier = gap.through
        guard gap.through.version > gap.after.version else {
            collapse()
            return (nil, [])
        }
        // What was begun before the gap is no part of the cursor any more.
        let begun = tries.all.map(\.sequence).filter { $0 > record.cursor.sequence && !extras.contains($0) }
        extras.merge(begun)
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
        if former == .latest, mode != .latest, let last = tries.last { move(to: ScopeLog.Place(before: last)) }
        tries.removeWaiting { begun in
            isMoved || mode != former
                || !extras.contains(begun.sequence) && interest.topic(of: begun.heard.change) == nil
        }
        if mode == .latest { move(to: record.acknowledged) }
        frontier = record.cursor
        reads.forgetPage()
        findNewest(mode, log, interest)
        let refused = isMoved ? 0 : record.givenUp
        if isMoved { record.givenUp = 0 }
        // It may be where the log does not reach any more.
        let isHidden = newest == nil && record.acknowledged.sequence < min(record.cursor.sequence, log.startsAfter)
        search = isHidden ? NewestSearch(place: record.acknowledged) : nil
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
        newest =
            log.entries.reversed().lazy.compactMap { interest.heard($0.change, at: $0.announcedAt) }.first
            ?? newest.flatMap { interest.heard($0.change, at: $0.announcedAt) }
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
        tries.hurry()
        reads.hurry()
    }
}
