import GRDB

/// Meaning of a failed write for the version it should have committed, and for the store.
enum CommitFault: Sendable {
    /// Stage of the write at which it failed.
    enum Stage: Sendable {
        /// Any statement before `COMMIT`: whatever failed, there is no commit record.
        case beforeCommit
        /// Inside `COMMIT`: the record may be on the disk although its synchronisation failed.
        case committing
    }

    /// The version is certainly not there, and the next publish may work.
    case noSpace
    /// The version is certainly not there, and the next publish may work: another process holds a lock, say.
    case passing
    /// The version is certainly not there, and nothing must be written any more.
    case broken
    /// The version may be there, and nothing must be written any more.
    case unknown

    init(_ error: DatabaseError, at stage: Stage) {
        switch (error.resultCode, stage) {
        // SQLite reports this when a write found no space, never when a synchronisation failed. In WAL mode the
        // record that commits is the last one written, so a write that fell short committed nothing.
        case (.SQLITE_FULL, _): self = .noSpace
        case (_, .beforeCommit) where error.isNoSpace: self = .noSpace
        case (.SQLITE_BUSY, _): self = .passing
        case (_, .committing): self = .unknown
        case (.SQLITE_IOERR, _), (.SQLITE_CORRUPT, _), (.SQLITE_NOTADB, _): self = .broken
        case (_, .beforeCommit): self = .passing
        }
    }
}

extension DatabaseError {
    /// A full disk also shows as a failure to make or grow the shared-memory file.
    var isNoSpace: Bool {
        resultCode == .SQLITE_FULL || extendedResultCode == .SQLITE_IOERR_SHMSIZE
    }

    /// SQLite maps its shared memory at the start: a disk that has no room for that file is an I/O error to it.
    func mayMeanNoSpace(at path: String) -> Bool {
        resultCode == .SQLITE_IOERR && (FileOperation.freeBytes(at: path) ?? .max) < 128 << 10
    }
}
