import GRDB

extension Error {
    /// Sentence about a database's failure and its remedy; without the statement at which it was noticed.
    package var databaseWords: String {
        guard let error = self as? DatabaseError else { return "\(self)" }
        let said = error.message ?? "\(error.extendedResultCode)"
        switch error.resultCode {
        case .SQLITE_FULL: return "the disk is full"
        case .SQLITE_CANTOPEN:
            return "the file cannot be opened or made: look at its rights, and at the limit of open files (ulimit -n)"
        case .SQLITE_NOTADB, .SQLITE_CORRUPT, .SQLITE_ERROR:
            return "it is damaged, or none of Stalecast's (\(said)); restore a backup, or move it and its -wal away to "
                + "begin without"
        default: return "\(said) (\(error.extendedResultCode.rawValue))"
        }
    }
}
