import Dispatch
import Logging
import StalecastWire
import Synchronization

/// Brings entries to the database, many in one transaction, on a queue of its own. While the database cannot be
/// written they are kept in memory and tried again: what is lost with the process is only repeated.
final class DeliveryJournal: Sendable {
    private let database: DeliveryDatabase
    private let configuration: DeliveryConfiguration
    private let logger: Logger
    private let queue = DispatchQueue(label: "stalecast.deliveries")
    private let state = Mutex(State())

    private struct State {
        var waiting = JournalBatch()
        /// Memory of the batch that was written last.
        var spare = JournalBatch()
        var isScheduled = false
        var isClosed = false
        var failure: String?
        var dropped = 0
        var longestFlush: UInt64 = 0
        var flushes = 0
        var lastPrune: UInt64 = 0

        mutating func put(_ attempt: DeliveryAttempt) {
            if waiting.items.count >= DeliveryJournal.maxWaiting { dropped += 1 } else { waiting.append(attempt) }
        }
    }

    private static let gathering = DispatchTimeInterval.milliseconds(100)
    private static let retry = DispatchTimeInterval.seconds(1)
    /// Beyond so many waiting entries, attempts are not logged any more.
    private static let maxWaiting = 50_000

    init(_ database: DeliveryDatabase, _ configuration: DeliveryConfiguration, _ logger: Logger) {
        self.database = database
        self.configuration = configuration
        self.logger = logger
    }

    /// Reason why nothing can be written at the moment; nil when all is well.
    var failure: String? { state.withLock { $0.failure } }
    /// Attempts that were not logged for want of room.
    var dropped: Int { state.withLock { $0.dropped } }
    /// The longest transaction so far in nanoseconds, and their number.
    var flushes: (longest: UInt64, count: Int) { state.withLock { ($0.longestFlush, $0.flushes) } }

    /// Entries that belong together are written together.
    func put(_ entries: [JournalEntry]) {
        if !entries.isEmpty { put { state in for entry in entries { state.waiting.append(entry) } } }
    }

    func put(_ attempt: DeliveryAttempt) { put { $0.put(attempt) } }

    private func put(_ add: (inout State) -> Void) {
        let isFirst = state.withLock { state in
            guard !state.isClosed else { return false }
            add(&state)
            defer { state.isScheduled = true }
            return !state.isScheduled
        }
        if isFirst { schedule(Self.gathering) }
    }

    /// Writes everything that waits; false when that failed.
    func flush() -> Bool {
        queue.sync { state.withLock { $0.isClosed || $0.waiting.items.isEmpty } || write() }
    }

    /// Writes what waits, and takes nothing more: the database may be closed after it. What would have come is found at
    /// the next start.
    func close() {
        queue.sync {
            let isEmpty = state.withLock { state in
                state.isClosed = true
                return state.waiting.items.isEmpty
            }
            _ = isEmpty || write()
        }
    }

    private func schedule(_ delay: DispatchTimeInterval) {
        queue.asyncAfter(deadline: .now() + delay) {
            // A write that was planned before the end must not touch a closed database.
            if self.state.withLock(\.isClosed) { return }
            if !self.write() { self.schedule(Self.retry) }
        }
    }

    private func write() -> Bool {
        var batch = JournalBatch()
        state.withLock { state in
            swap(&batch, &state.waiting)
            swap(&state.waiting, &state.spare)
        }
        let begin = DispatchTime.now().uptimeNanoseconds
        do {
            try database.write(batch)
        } catch {
            failed(&batch, "\(error)")
            return false
        }
        if begin - min(begin, state.withLock { $0.lastPrune }) > 60_000_000_000 { prune(begin) }
        succeeded(&batch, DispatchTime.now().uptimeNanoseconds - begin)
        return true
    }

    private func succeeded(_ written: inout JournalBatch, _ time: UInt64) {
        written.removeAll()
        let (wasFailing, again) = state.withLock { state in
            swap(&state.spare, &written)
            defer { state.failure = nil }
            state.longestFlush = max(state.longestFlush, time)
            state.flushes += 1
            // Entries that come after this critical section schedule the next write themselves.
            state.isScheduled = !state.waiting.items.isEmpty
            return (state.failure != nil, state.isScheduled)
        }
        if wasFailing { logger.notice("the delivery database can be written again") }
        if again { schedule(Self.gathering) }
    }

    private func failed(_ batch: inout JournalBatch, _ reason: String) {
        let isNew = state.withLock { state in
            // What came meanwhile is newer and stays behind.
            batch.append(state.waiting)
            if batch.items.count > Self.maxWaiting { batch.compact() }
            swap(&state.waiting, &batch)
            state.isScheduled = true
            defer { state.failure = reason }
            return state.failure == nil
        }
        if isNew {
            logger.error(
                "the delivery database cannot be written; deliveries go on from memory and may be repeated after a restart",
                metadata: ["error": "\(reason)", "path": "\(configuration.path)"])
        }
    }

    /// Removes old rows; a later write removes what cannot be removed now.
    private func prune(_ now: UInt64) {
        let wall = Timestamp.now()
        do {
            let hasMore = try database.prune(
                attemptsBefore: wall.advanced(by: .zero - configuration.attemptRetention),
                deadBefore: wall.advanced(by: .zero - configuration.deadLetterRetention))
            if !hasMore { state.withLock { $0.lastPrune = now } }
        } catch {
            logger.warning("old attempts cannot be removed", metadata: ["error": "\(error)"])
        }
    }
}
