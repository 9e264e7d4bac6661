import GRDB
import StalecastWire
import Synchronization

extension TemplateStore {
    /// Removes every version that retention lets go, in all scopes, a few per transaction so that publishes get
    /// between. Happens by itself once after opening; call it from time to time (hourly, say), since a scope that is
    /// not published to still ages. Returns at once; the work is done on the writer's queue.
    package func beginSweep() {
        guard state.withLock({ $0.refusal == nil }) else { return }
        connection.inTurn { db in self.sweep(db) }
    }

    private static let removalsPerSweep = 64

    private func sweep(_ db: Database) {
        guard state.withLock({ $0.refusal == nil }) else { return }
        do throws(StoreError) {
            let removed = try transaction(db) { db in
                // A copy: `begin` reads the database, and the lock must not wait for that.
                var clock = state.withLock { $0.clock }
                try clock.begin(db, retention, now: configuration.now())
                state.withLock { [clock] in $0.clock = clock }
                let now = trustedTime(configuration.now())
                return try retention.apply(to: nil, now: now, limit: Self.removalsPerSweep, db)
            }
            state.withLock { $0.figures.removed += UInt64(removed) }
            if removed > 0 { log(.info, "removed old versions", ["count": String(removed)]) }
            checkpointIfDue()
            if removed == Self.removalsPerSweep { beginSweep() }
        } catch {
            log(.warning, "old versions could not be removed", ["error": error.description])
        }
    }

    /// `now` as far as versions may be removed by it. Called on the writer's queue only.
    func trustedTime(_ now: Timestamp) -> Timestamp? {
        let retention = retention
        let (trusted, hasJumped) = state.withLock { $0.clock.read(now, retention) }
        if hasJumped {
            log(
                .warning, "the clock moved by more than store.maxVersionAge, old versions are kept for now",
                ["now": now.description])
        }
        return trusted
    }

    /// Writes the write-ahead log back into the database when it has grown past the limit, after the publisher has its
    /// answer: whatever happens here, the versions in the log are durable.
    ///
    /// - Parameter result: a publish that found no space asks for it too, since an emptied log gives space back.
    func checkpointIfDue(because result: Result<StoredVersion, StoreError>? = nil) {
        let isFull = Self.isDiskFull(result)
        let size = isFull ? FileOperation.size(directory.writeAheadLog) ?? 0 : connection.logLength.bytes
        guard isFull && size > 0 || state.withLock({ size >= $0.checkpointAt }) else { return }
        // In turn, so that a publish that runs on the writer's queue is answered first.
        connection.inTurn { self.checkpoint($0, size: size, givesSpaceBack: isFull) }
    }

    /// The log's file keeps its size, and the next commits overwrite it: they change no size, which the disk would have
    /// to write as well. A file that became large, because a read took long, is emptied.
    private func checkpoint(_ db: Database, size: Int64, givesSpaceBack: Bool) {
        let logLength = connection.logLength
        guard state.withLock({ $0.refusal == nil && (givesSpaceBack || logLength.bytes >= $0.checkpointAt) })
        else { return }
        do {
            try checkpoint(db, givesSpaceBack || size > 2 * configuration.checkpointBytes ? .truncate : .restart)
            logLength.restart()
            state.withLock { $0.checkpointAt = configuration.checkpointBytes }
        } catch {
            checkpointFailed(error, size: size)
        }
    }

    /// Waits for readers a moment only: a backup may read for seconds, and publishes wait behind this.
    private func checkpoint(_ db: Database, _ mode: Database.CheckpointMode) throws {
        try db.execute(sql: "PRAGMA busy_timeout = 50")
        defer { restoreBusyTimeout(db) }
        try db.checkpoint(mode)
    }

    private func restoreBusyTimeout(_ db: Database) {
        do { try db.execute(sql: "PRAGMA busy_timeout = 5000") } catch {
            log(.warning, "busy timeout could not be restored", ["error": "\(error)"])
        }
    }

    /// Tries again when the log has grown by as much again; what has been written back already need not be repeated.
    private func checkpointFailed(_ error: any Error, size: Int64) {
        state.withLock {
            $0.checkpointAt = size + configuration.checkpointBytes
            $0.figures.failedCheckpoints += 1
        }
        guard let error = error as? DatabaseError, error.resultCode != .SQLITE_BUSY,
            error.resultCode != .SQLITE_LOCKED
        else { return }
        switch CommitFault(error, at: .beforeCommit) {
        // Said once, when the disk becomes full.
        case .noSpace: foundNoSpace()
        case .broken, .unknown:
            fail("the write-ahead log could not be written back into the database: \(Self.cause(error))")
        case .passing:
            log(.warning, "write-ahead log not written back yet, it is tried again", ["error": Self.cause(error)])
        }
    }

    private static func isDiskFull(_ result: Result<StoredVersion, StoreError>?) -> Bool {
        if case .failure(.diskFull) = result { true } else { false }
    }
}
