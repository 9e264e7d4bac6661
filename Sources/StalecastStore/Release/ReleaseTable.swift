import GRDB
import StalecastWire

/// SQL of the table `release`: the newest releases of each scope, of which only the newest can be open. Every function
/// runs inside the caller's transaction.
enum ReleaseTable {
    /// Releases kept of one scope.
    static let most = 100

    /// The newest release of every scope that ever had one.
    static func newest(_ db: Database) throws -> [Scope: Release] {
        let sql = """
            SELECT record FROM release WHERE number =
                (SELECT max(number) FROM release AS r WHERE (r.project, r.namespace) = (release.project, release.namespace))
            """
        return try read(sql, db).reduce(into: [:]) { $0[$1.scope] = $1 }
    }

    /// Releases of one scope, newest first.
    static func page(of scope: Scope, limit: Int, _ db: Database) throws -> [Release] {
        try read(
            "SELECT record FROM release WHERE project = ? AND namespace = ? ORDER BY number DESC LIMIT ?", db,
            scope.arguments + [limit])
    }

    private static func read(_ sql: String, _ db: Database, _ arguments: StatementArguments = []) throws -> [Release] {
        try String.fetchAll(db, sql: sql, arguments: arguments).map { text in
            guard let release = Release(record: try JSONValue.parse(text.utf8)) else {
                throw StoreError.readFailed("a release in the table `release` cannot be read; restore a backup")
            }
            return release
        }
    }

    /// Writes a release over its former state, and removes what is beyond ``most``.
    static func put(_ release: Release, _ db: Database) throws {
        let (project, namespace) = (release.scope.project.description, release.scope.namespace.description)
        try db.execute(
            sql: "INSERT OR REPLACE INTO release VALUES (?, ?, ?, ?, ?)",
            arguments: [
                // The base keeps its version from retention, so it goes with the end of the release.
                project, namespace, release.isOpen ? release.base.rawValue : nil, release.version.rawValue,
                release.record.text(),
            ])
        try db.execute(
            sql: """
                DELETE FROM release WHERE project = ?1 AND namespace = ?2 AND number <= (
                    SELECT number FROM release WHERE project = ?1 AND namespace = ?2
                    ORDER BY number DESC LIMIT 1 OFFSET ?3)
                """, arguments: [project, namespace, most])
    }
}
