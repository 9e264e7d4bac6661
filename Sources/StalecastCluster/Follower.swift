package import StalecastRecords
package import StalecastWire

/// Keeps a replica at the log's end: facts in, actions out. The watch is a watch event, the log is the truth; entries
/// are applied one after the other, each to the head it was made for. A page that ends at another head than the replica
/// then has, or an entry that was made for another, says that the log is not the one that was followed.
///
/// A watch and everything heard on it have a session. When one ends, it is not known whether the log that comes next is
/// the one that was, until a read has said so.
package struct Follower: Sendable {
    /// A request to be told when the replica has everything that was in the log at the time of asking.
    package typealias Ticket = UInt64

    package enum Action: Sendable {
        /// Open a watch, then end the one before. Its watch events are ``received(_:in:)``, its end ``watchEnded(_:)``.
        case watch(session: Int)
        /// ``pageRead(_:_:)``
        case read(id: Int, after: CommitSequence, limit: Int)
        /// Make durable, visible, and announce, each entry before the next begins; then ``applied()``.
        case apply([LogEntry])
        /// The log has another history, or one that cannot be compared: the process restarts with an empty replica of
        /// this epoch. No action follows.
        case rebuild(LogMetadata)
        /// The log is not the one that was followed: replace this log metadata by one with a new epoch, if the log
        /// still ends at this head, because the read may be old. Then call ``renewed()``, whether it worked or not.
        case renewEpoch(LogMetadata, at: LogHead)
        case caughtUp([Ticket], isDone: Bool)
        /// Call ``due()`` after a pause: 0 to 200 ms at random, so that nodes do not come back at once.
        case retry
    }

    private struct Read {
        let id: Int
        /// ``Follower/doubts`` at its beginning.
        let doubts: Int
        let limit: Int
        /// Nothing is doubted, callers only want to know: entries of the watch are applied meanwhile.
        let isForTickets: Bool
        /// Heads of the replica since its beginning: the log may have ended at any of them when it was read.
        var heads: [LogHead]
        /// Came while entries are applied, and waits for that.
        var result: Result<LogPage, LogError>?
    }

    /// The reads of the log, one at a time.
    private struct Reads {
        private var count = 0
        /// The read that is under way.
        var present: Read?
        var limit = PageLimit()

        /// Begins the next read.
        mutating func begin(from head: LogHead, doubts: Int, isForTickets: Bool) -> Action {
            count += 1
            let entries = limit.entries
            present = Read(id: count, doubts: doubts, limit: entries, isForTickets: isForTickets, heads: [head])
            return .read(id: count, after: head.sequence, limit: entries)
        }
    }

    /// Callers who want the replica to have all that was in the log when they asked.
    private struct Tickets {
        /// Want a read that begins after they asked.
        private(set) var waiting: [Ticket] = []
        /// Take part in the present read.
        private var riding: [Ticket] = []
        /// Have been read up to this sequence.
        private var arriving: [(ticket: Ticket, at: CommitSequence)] = []

        mutating func add(_ ticket: Ticket) { waiting.append(ticket) }

        mutating func readBegan() {
            riding += waiting
            waiting = []
        }

        /// The read proved that the log ends at `end`.
        mutating func readSucceeded(upTo end: CommitSequence) {
            arriving += riding.map { ($0, end) }
            riding = []
        }

        /// The read proved nothing: those who took part in it wait for the next.
        mutating func readAgain() {
            waiting = riding + waiting
            riding = []
        }

        /// The log's history has changed: no caller has arrived.
        mutating func startOver() {
            waiting = riding + arriving.map(\.ticket) + waiting
            (riding, arriving) = ([], [])
        }

        /// Tickets that a replica at `sequence` serves.
        mutating func take(upTo sequence: CommitSequence) -> [Action] {
            let arrived = arriving.filter { $0.at <= sequence }.map(\.ticket)
            arriving.removeAll { $0.at <= sequence }
            return arrived.isEmpty ? [] : [.caughtUp(arrived, isDone: true)]
        }

        mutating func failWaiting() -> [Action] {
            let failed = waiting
            waiting = []
            return failed.isEmpty ? [] : [.caughtUp(failed, isDone: false)]
        }

        mutating func failAll() -> [Action] {
            startOver()
            return failWaiting()
        }
    }

    private enum Extent {
        case whole
        /// The replica will be whole at this sequence; nil while the log's end is not known.
        case partial(until: CommitSequence?)
    }

    private enum Work {
        case applying(count: Int)
        case rebuilding
        case renewing
        /// Waits for ``due()``.
        case pausing
    }

    /// Epoch of the replica; nil while it has none.
    package let epoch: Epoch?
    /// Head of the replica.
    package private(set) var head: LogHead
    /// LogMetadata as last read; nil before.
    package private(set) var logMetadata: LogMetadata?
    /// The present watch.
    package private(set) var session = 0
    private var hasWatch = false
    private var work: Work?
    private var reads = Reads()
    /// Number of times that the replica was doubted. A read that began before the last one proves nothing.
    private var doubts = 0
    private var isVerified = false
    private var extent: Extent
    private var needsRead = true
    /// Sequence that the log lacked at the last read, although retention did not take it.
    package private(set) var hole: CommitSequence?
    /// Entries to be applied next, each known to follow the one before.
    private var pending: [LogEntry] = []
    /// ``Action/retry`` was asked for, and ``due()`` has not come.
    private var isRetrying = false
    private var tickets = Tickets()

    /// - Parameters:
    ///   - epoch: of the replica; nil for none.
    ///   - head: of the replica.
    ///   - isWhole: of the replica.
    package init(epoch: Epoch?, head: LogHead, isWhole: Bool) {
        (self.epoch, self.head) = (epoch, head)
        extent = isWhole ? .whole : .partial(until: nil)
    }

    /// False while a replica that was begun empty has not come to the log's end: nothing may be answered from it. To be
    /// kept with the replica.
    package var isWhole: Bool { if case .whole = extent { true } else { false } }

    /// Whether the replica is a part of the log's history, as far as is known, and the log takes entries: only then may
    /// something be proposed.
    package var isReady: Bool { isVerified && isWhole && logMetadata?.epoch == epoch && logMetadata?.isFrozen == false }

    package mutating func begin() -> [Action] { openWatch() }

    package mutating func received(_ watchEvent: WatchEvent, in session: Int) -> [Action] {
        guard session == self.session else { return [] }
        switch watchEvent {
        case .entry(let entry): take(entry)
        // Entries that were committed before the watch was in place did not ring.
        case .opened:
            // A second watch beside one that stands: only a read says that both tell of the same log.
            if isVerified { doubt() }
            needsRead = true
        case .other: needsRead = true
        }
        return step()
    }

    /// Takes an entry that this node has appended.
    ///
    /// - Parameter session: that was there when it was proposed.
    package mutating func offered(_ entry: LogEntry, in session: Int) -> [Action] {
        received(.entry(entry), in: session)
    }

    package mutating func watchEnded(_ session: Int) -> [Action] {
        guard session == self.session, hasWatch else { return [] }
        hasWatch = false
        doubt()
        return step() + retry()
    }

    /// Replaces the watch, which may have missed entries of the log.
    package mutating func distrustWatch() -> [Action] {
        guard hasWatch else { return [] }
        doubt()
        return openWatch()
    }

    package mutating func asked(_ ticket: Ticket) -> [Action] {
        tickets.add(ticket)
        return step()
    }

    package mutating func pageRead(_ id: Int, _ result: Result<LogPage, LogError>) -> [Action] {
        guard reads.present?.id == id else { return [] }
        reads.present?.result = result
        return step()
    }

    private mutating func take(_ result: Result<LogPage, LogError>, of read: Read) -> [Action] {
        switch result {
        case .failure(let error): reads.limit.failed(error)
        case .success(let page): reads.limit.succeeded(page)
        }
        // The replica was doubted after this read began: it may have read the log of before.
        guard read.doubts == doubts else { return readAgain() }
        switch result {
        case .failure(let error):
            // What rings meanwhile may be what only a newer program understands.
            if case .unreadable = error { doubt() }
            return readFailed()
        case .success(let page): return take(page, read)
        }
    }

    /// Everything of the last ``Action/apply(_:)`` is applied.
    package mutating func applied() -> [Action] {
        guard case .applying(let count) = work else { return [] }
        work = nil
        reads.present?.heads += pending.prefix(count).map { LogHead(of: $0) }
        head = LogHead(of: pending[count - 1])
        pending.removeFirst(count)
        return arrivals() + step()
    }

    /// Handles entries that cannot be had from the log: it may be another one by now.
    package mutating func applyFailed() -> [Action] {
        guard case .applying = work else { return [] }
        work = nil
        doubt()
        return readFailed()
    }

    /// The database does not take it now: no caller waits for that.
    package mutating func applyIsLate() -> [Action] { tickets.failWaiting() }

    package mutating func renewed() -> [Action] {
        guard case .renewing = work else { return [] }
        work = nil
        needsRead = true
        return step()
    }

    package mutating func due() -> [Action] {
        isRetrying = false
        if case .pausing = work { work = nil }
        return (hasWatch ? [] : openWatch()) + step()
    }

    // MARK: What to do next

    private mutating func openWatch() -> [Action] {
        session += 1
        hasWatch = true
        needsRead = true
        return [.watch(session: session)]
    }

    /// Asks for one pause for watch and read. With two pauses, each would begin both again, and fail for both.
    private mutating func retry() -> [Action] {
        if isRetrying { return [] }
        isRetrying = true
        return [.retry]
    }

    private mutating func doubt() {
        doubts += 1
        isVerified = false
        needsRead = true
        if case .applying(let count) = work { pending.removeLast(pending.count - count) } else { pending = [] }
    }

    private mutating func step() -> [Action] {
        guard work == nil else { return [] }
        if let read = reads.present, let result = read.result {
            reads.present = nil
            return take(result, of: read)
        }
        // Nothing is applied beside a read that settles a doubt: its page is compared with this head.
        if !pending.isEmpty, reads.present.map({ $0.isForTickets && !needsRead }) ?? true {
            work = .applying(count: pending.count)
            return [.apply(pending)]
        }
        guard reads.present == nil, needsRead || !tickets.waiting.isEmpty else { return [] }
        return [read()]
    }

    private mutating func read() -> Action {
        defer { needsRead = false }
        tickets.readBegan()
        return reads.begin(from: head, doubts: doubts, isForTickets: !needsRead)
    }

    private mutating func readAgain() -> [Action] {
        tickets.readAgain()
        needsRead = true
        return step()
    }

    private mutating func readFailed() -> [Action] {
        needsRead = true
        work = .pausing
        return tickets.failAll() + retry()
    }

    // MARK: What the log and the watch event say

    /// Head of what is applied or will be.
    private var newest: LogHead { pending.last.map { LogHead(of: $0) } ?? head }

    /// Bounds what waits for the database; more is read from the log.
    private static let maxPending = 256

    private mutating func take(_ entry: LogEntry) {
        if entry.sequence <= newest.sequence { return }
        guard isVerified, entry.previous == newest, pending.count < Self.maxPending else { return needsRead = true }
        pending.append(entry)
    }

    private mutating func take(_ page: LogPage, _ read: Read) -> [Action] {
        logMetadata = page.logMetadata
        hole = nil
        guard page.logMetadata.epoch == epoch else { return rebuild(page.logMetadata) }
        for entry in page.entries where entry.sequence > newest.sequence {
            switch relation(of: entry, page) {
            case .next: pending.append(entry)
            case .unknowable: return rebuild(page.logMetadata)
            case .foreign: return renew(page)
            case .missing:
                hole = newest.sequence + 1
                return readFailed()
            }
            isVerified = true
        }
        guard page.entries.count < read.limit else {
            needsRead = true
            return step()
        }
        // The log ends at an entry that this replica never had: another history has begun.
        guard isKnown(page.head) || read.heads.contains(page.head) else { return renew(page) }
        isVerified = true
        if !isWhole { extent = .partial(until: page.head.sequence) }
        tickets.readSucceeded(upTo: page.head.sequence)
        return arrivals() + step()
    }

    private enum Relation { case next, foreign, unknowable, missing }

    private func relation(of entry: LogEntry, _ page: LogPage) -> Relation {
        if entry.sequence == newest.sequence + 1 { return entry.previous == newest ? .next : .foreign }
        // A log with a hole that retention did not make is no log: look again, later.
        guard entry.sequence <= page.logMetadata.prunedBelow else { return .missing }
        // The log no longer has the entries after the replica, so there is nothing to compare.
        return isVerified || newest.sequence == 0 ? .next : .unknowable
    }

    /// Bells may have brought more than the log had when it was read.
    private func isKnown(_ head: LogHead) -> Bool {
        head == self.head || head == newest || pending.contains { LogHead(of: $0) == head }
    }

    private mutating func renew(_ page: LogPage) -> [Action] {
        tickets.startOver()
        pending = []
        isVerified = false
        work = .renewing
        return openWatch() + [.renewEpoch(page.logMetadata, at: page.head)]
    }

    private mutating func rebuild(_ logMetadata: LogMetadata) -> [Action] {
        tickets.startOver()
        pending = []
        (isVerified, extent) = (false, .partial(until: nil))
        work = .rebuilding
        // What rings on the present watch, or was appended during it, may be of the history before.
        return openWatch() + [.rebuild(logMetadata)]
    }

    private mutating func arrivals() -> [Action] {
        if case .partial(let end?) = extent, end <= head.sequence { extent = .whole }
        return tickets.take(upTo: head.sequence)
    }
}
