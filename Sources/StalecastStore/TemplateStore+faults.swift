import GRDB
import StalecastWire
import Synchronization

extension TemplateStore {
    /// Turns what a write threw into the honest answer, and notes what it says about the disk.
    func judge(_ error: any Error, at stage: CommitFault.Stage) -> StoreError {
        if let error = error as? StoreError { return error }
        guard let error = error as? DatabaseError else { return judgeForeign(error, at: stage) }
        switch CommitFault(error, at: stage) {
        case .noSpace:
            foundNoSpace()
            return .diskFull("the disk is full; nothing was committed; free some space and publish again")
        case .passing:
            return .unavailable("the database refused the write (\(Self.cause(error))); nothing was committed")
        case .broken:
            fail("a write failed: \(Self.cause(error))")
            return .unavailable("the database cannot be written (\(Self.cause(error))); nothing was committed")
        case .unknown:
            return failedCommit(Self.cause(error))
        }
    }

    /// An error that is not SQLite's, say content that cannot be read. In `COMMIT` its meaning is not known.
    private func judgeForeign(_ error: any Error, at stage: CommitFault.Stage) -> StoreError {
        switch stage {
        case .beforeCommit: .unavailable("the version could not be made (\(error)); nothing was committed")
        case .committing: failedCommit("\(error)")
        }
    }

    private func failedCommit(_ cause: String) -> StoreError {
        fail("a commit failed: \(cause)")
        return .outcomeUnknown(
            "the commit failed (\(cause)): the version may or may not be there after the restart; "
                + "read the template before publishing again")
    }

    /// SQLite has often rolled back by itself. When it cannot, the connection is of no more use.
    func rollBack(_ db: Database) {
        guard db.isInsideTransaction else { return }
        do { try db.rollback() } catch { fail("a transaction could not be rolled back: \(error)") }
    }

    /// Stops committing, for good in this process, and says so once.
    func fail(_ reason: String) {
        let (isFirst, handler) = state.withLock { $0.fail(reason) }
        guard isFirst else { return }
        log(.error, "store failed, no further publish is accepted", ["reason": reason])
        handler?(reason)
    }

    /// Compares the free space with what is required.
    ///
    /// - Returns: the free bytes when they are too few, else nil.
    @discardableResult
    func measureSpace() -> Int64? {
        guard let free = FileOperation.freeBytes(at: directory.path) else { return nil }
        let isShort = free < configuration.minFreeBytes
        note(isShort ? .short(free: free) : .measured(free: free, required: configuration.minFreeBytes))
        return isShort ? free : nil
    }

    /// A write found no space, whatever the file system says.
    func foundNoSpace() { note(.short(free: FileOperation.freeBytes(at: directory.path) ?? 0)) }

    /// Remembers whether the disk is full, and says so when that changes.
    func note(_ space: StoreState.Space) {
        let now = configuration.now()
        guard state.withLock({ $0.noteSpace(space, now: now) }) else { return }
        if case .short = space {
            log(.error, "disk is full, publishes are refused", ["directory": directory.path])
        } else {
            log(.info, "disk has space again, publishes are accepted", ["directory": directory.path])
        }
    }

    /// The code and SQLite's words, without the statement and its arguments.
    static func cause(_ error: DatabaseError) -> String {
        "\(error.extendedResultCode.rawValue) \(error.message ?? "")"
    }
}
