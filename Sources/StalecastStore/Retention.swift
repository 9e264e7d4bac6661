import GRDB
import StalecastWire

/// Which versions may go: beyond the newest so many of a scope, or too old; never a scope's newest.
struct Retention: Sendable {
    let maxVersions: Int
    let maxAge: Duration

    init(maxVersions: Int, maxAge: Duration) {
        self.maxVersions = max(1, maxVersions)
        self.maxAge = maxAge
    }

    /// Removes at most `limit` versions, of `scope` or of all scopes, inside the caller's transaction.
    ///
    /// - Returns: how many were removed; `limit` means there may be more.
    func apply(to scope: Scope?, now: Timestamp, limit: Int, _ db: Database) throws -> Int {
        let age = Int64(min(maxAge / .microseconds(1), 9e18))
        let filter = "(?1 IS NULL OR (scope.project = ?1 AND scope.namespace = ?2))"
        try db.execute(
            sql: """
                DELETE FROM version WHERE rowid IN (
                    SELECT version.rowid FROM scope CROSS JOIN version ON version.scope = scope.id
                    WHERE \(filter) AND version.number <= scope.latest - ?3
                    UNION
                    SELECT version.rowid FROM scope CROSS JOIN version ON version.scope = scope.id
                    WHERE \(filter) AND version.updateTime < ?4 AND version.number < scope.latest
                    LIMIT ?5)
                """,
            arguments: [
                scope?.project.description, scope?.namespace.description, maxVersions, now.microseconds - age, limit,
            ])
        return db.changesCount
    }
}
