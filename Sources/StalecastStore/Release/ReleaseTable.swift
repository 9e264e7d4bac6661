import GRDB
import StalecastWire

/// The SQL of the table `release`: the newest release of each scope. Every function runs inside the caller's transaction.
enum ReleaseTable {
    /// The newest release of every scope that ever had one.
    static func all(_ db: Database) throws -> [Scope: Release] {
        let rows = try Row.fetchAll(db, sql: "SELECT project, namespace, record FROM release")
        return try rows.reduce(into: [:]) { releases, row in
            let scope = try Scope(project: ProjectID(row["project"]), namespace: Namespace(row["namespace"]))
            guard let release = Release(record: try JSONValue.parse((row["record"] as String).utf8)) else {
                throw StoreError.readFailed("the release of \(scope) cannot be read; restore a backup")
            }
            releases[scope] = release
        }
    }

    /// Takes the place of the scope's release of before.
    static func put(_ release: Release, _ db: Database) throws {
        try db.execute(
            sql: "INSERT OR REPLACE INTO release VALUES (?, ?, ?, ?, ?)",
            arguments: [
                release.scope.project.description, release.scope.namespace.description,
                release.isOpen ? release.base.rawValue : nil, release.version.rawValue, release.record.text(),
            ])
    }
}
