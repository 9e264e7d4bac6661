import StalecastWire

/// Versions of a lane that only the store has: the read under way, and what the last one brought.
struct LaneReads: Sendable {
    /// The read under way, by number, and what it begins after.
    var current: (id: UInt64, after: CommitSequence)?
    private var againAt: UInt64 = 0
    private var page: ScopeLog.Page?

    func known(after sequence: CommitSequence, _ log: ScopeLog) -> ScopeLog.Known { log.known(after: sequence, page) }

    /// Read that is to begin, unless one is under way or has failed just now.
    func next(after sequence: CommitSequence, at now: UInt64) -> Lane.Next {
        if current != nil { return .nothing }
        return againAt > now ? .wait(againAt) : .read(after: sequence)
    }

    /// Takes what was read.
    ///
    /// - Returns: what the read began after, and the first change that is stored; nil when the store could not be read,
    ///   which is tried again at `time`.
    mutating func end(
        oldest: TemplateChange?, _ changes: [TemplateChange], retryAt time: UInt64
    ) -> (after: CommitSequence, oldest: TemplateChange)? {
        guard let after = current?.after else { return nil }
        current = nil
        // The newest version is always kept.
        guard let oldest, let last = changes.last else {
            againAt = time
            return nil
        }
        // What was published since the read is after the page, however far the log has gone on.
        page = ScopeLog.Page(after: after, through: last.sequence, changes: changes)
        return (after, oldest)
    }

    mutating func forgetPage() { page = nil }
    mutating func hurry() { againAt = 0 }
}

/// Versions that the store has removed before a lane has begun them.
struct LaneGap {
    let after: ScopeLog.Place
    let through: ScopeLog.Place
    /// Versions that may be among them and were settled out of order.
    let settled: Set<VersionNumber>
}

/// Search for the newest version that a webhook hears, among those that were passed over.
struct NewestSearch: Sendable {
    private(set) var place: ScopeLog.Place
    private(set) var found: ScopeLog.Heard?

    /// Goes on as far as `end`.
    ///
    /// - Returns: false when the store must be read first.
    mutating func goOn(
        to end: ScopeLog.Place, _ reads: LaneReads, _ log: ScopeLog, _ interest: ScopeLog.Interest
    ) -> Bool {
        while place.sequence < end.sequence {
            switch reads.known(after: place.sequence, log) {
            case .unread: return false
            case .change(let change, let time):
                found = interest.heard(change, at: time) ?? found
                place = ScopeLog.Place(change)
            case .end: place = end
            }
        }
        return true
    }
}
