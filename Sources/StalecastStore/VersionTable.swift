import GRDB
import StalecastTemplate
import StalecastWire

/// The SQL of the `version` and `scope` tables; every function runs inside the caller's transaction.
enum VersionTable {
    private static let metadataColumns = """
        version.number, version.sequence, version.updateTime, version.userName, version.userEmail, version.userImage,
        version.description, version.origin, version.type, version.rollbackSource, version.etag, version.changedKeys
        """
    private static let ofScope =
        "FROM version JOIN scope ON scope.id = version.scope WHERE scope.project = ? AND scope.namespace = ?"

    /// The number of the scope's newest version; 0 when there is none. Never falls, whatever retention removes.
    static func latest(_ scope: Scope, _ db: Database) throws -> VersionNumber {
        let statement = try db.cachedStatement(sql: "SELECT latest FROM scope WHERE project = ? AND namespace = ?")
        let latest = try Int64.fetchOne(statement, arguments: scope.arguments)
        return VersionNumber(clamping: latest ?? 0)
    }

    /// nil when the version is not stored.
    static func version(_ number: VersionNumber, of scope: Scope, _ db: Database) throws -> StoredVersion? {
        try version(stored: number.rawValue, of: scope, db)
    }

    /// Version by its number as stored: stores made before numbers were limited may hold higher ones.
    private static func version(stored number: Int64, of scope: Scope, _ db: Database) throws -> StoredVersion? {
        try Row.fetchOne(
            db, sql: "SELECT \(metadataColumns), version.content \(ofScope) AND version.number = ?",
            arguments: scope.arguments + [number]
        ).map { try storedVersion($0, of: scope) }
    }

    /// The newest version of every scope.
    static func allCurrent(_ db: Database) throws -> [StoredVersion] {
        try Row.fetchAll(db, sql: "SELECT project, namespace, latest FROM scope").compactMap {
            try version(stored: $0["latest"], of: $0.scope(), db)
        }
    }

    /// The newest `limit` changes, oldest first.
    static func recentChanges(of scope: Scope, limit: Int, _ db: Database) throws -> [TemplateChange] {
        let rows = try Row.fetchAll(
            db, sql: "SELECT \(metadataColumns) \(ofScope) ORDER BY version.number DESC LIMIT ?",
            arguments: scope.arguments + [limit])
        return try rows.reversed().map { try change($0, of: scope) }
    }

    /// The first `limit` changes after a sequence, oldest first. Besides them it reads a few rows to find the first.
    static func changes(
        of scope: Scope, after sequence: CommitSequence, limit: Int, _ db: Database
    ) throws -> [TemplateChange] {
        let first = try firstNumber(of: scope, after: sequence, db)
        let rows = try Row.fetchAll(
            db, sql: "SELECT \(metadataColumns) \(ofScope) AND version.number >= ? ORDER BY version.number LIMIT ?",
            arguments: scope.arguments + [first.rawValue, limit])
        return try rows.map { try change($0, of: scope) }
    }

    /// The number of the first version after a sequence, or one that is not there yet. By bisection, because there is
    /// an index of a scope's numbers, and numbers and sequences grow together.
    private static func firstNumber(
        of scope: Scope, after sequence: CommitSequence, _ db: Database
    ) throws -> VersionNumber {
        let statement = try db.cachedStatement(
            sql: "SELECT version.sequence \(ofScope) AND version.number >= ? ORDER BY version.number LIMIT 1")
        var (low, high): (Int64, Int64) = (1, try latest(scope, db).rawValue + 1)
        while low < high {
            let middle = low + (high - low) / 2
            let found = try Int64.fetchOne(statement, arguments: scope.arguments + [middle])
            if found.map({ $0 <= Int64(clamping: sequence) }) == true { low = middle + 1 } else { high = middle }
        }
        return VersionNumber(clamping: low)
    }

    /// Newest first; one row more than the page tells whether there is another.
    static func page(of scope: Scope, _ query: VersionQuery, _ db: Database) throws -> VersionQuery.Page {
        let size = min(max(query.pageSize, 1), 300)
        let newest = min(query.startingAt?.rawValue ?? .max, query.endVersion?.rawValue ?? .max)
        // The end is exclusive, and times are whole microseconds.
        let end = query.endTime.map { $0.microseconds.subtractingReportingOverflow(1) }
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT \(metadataColumns) \(ofScope) AND version.number <= ?
                   AND version.updateTime >= ? AND version.updateTime <= ? ORDER BY version.number DESC LIMIT ?
                """,
            arguments: scope.arguments + [
                newest, query.startTime?.microseconds ?? .min, end.map { $0.overflow ? .min : $0.partialValue } ?? .max,
                size + 1,
            ])
        let versions = try rows.map { try change($0, of: scope).metadata }
        return VersionQuery.Page(versions: Array(versions.prefix(size)), next: versions.dropFirst(size).first?.number)
    }

    /// Stores a version as its scope's newest.
    ///
    /// - Parameter former: the newest until now, 0 for none; nil: any.
    /// - Returns: false, and nothing is stored, when another version is the newest.
    static func append(_ version: StoredVersion, after former: VersionNumber?, _ db: Database) throws -> Bool {
        let scope = version.scope
        // The update concerns no row and returns nothing when another version is the newest.
        let row = try Int64.fetchOne(
            db.cachedStatement(
                sql: """
                    INSERT INTO scope (project, namespace, latest) VALUES (?1, ?2, ?3)
                    ON CONFLICT (project, namespace) DO UPDATE SET latest = excluded.latest
                        WHERE latest = coalesce(?4, latest) RETURNING id
                    """), arguments: scope.arguments + [version.version.rawValue, former?.rawValue])
        guard let scopeID = row else { return false }
        let metadata = version.metadata
        let keys = version.change.changedKeys.map { JSONValue.array($0.map(JSONValue.string)).text() }
        try db.run(
            "INSERT INTO version VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                scopeID, metadata.number.rawValue, Int64(version.change.sequence), metadata.updateTime.microseconds,
                metadata.updateUser.name, metadata.updateUser.email, metadata.updateUser.imageURL,
                metadata.description, metadata.updateOrigin.rawValue, metadata.updateType.rawValue,
                metadata.rollbackSource?.rawValue, version.etag, keys, String(decoding: version.content, as: UTF8.self),
            ])
        return true
    }

    /// Versions with their contents in the order of their commits.
    static func versions(after sequence: CommitSequence, limit: Int, _ db: Database) throws -> [StoredVersion] {
        try Row.fetchAll(
            db,
            sql: "SELECT \(metadataColumns), version.content, scope.project, scope.namespace FROM version "
                + "JOIN scope ON scope.id = version.scope WHERE version.sequence > ? ORDER BY version.sequence LIMIT ?",
            arguments: [Int64(clamping: sequence), limit]
        ).map { try storedVersion($0, of: $0.scope()) }
    }

    static func version(largerThan bytes: Int, _ db: Database) throws -> (scope: Scope, number: VersionNumber)? {
        try Row.fetchOne(
            db,
            sql: "SELECT scope.project, scope.namespace, version.number FROM version "
                + "JOIN scope ON scope.id = version.scope WHERE length(CAST(version.content AS BLOB)) > ? "
                + "ORDER BY version.sequence LIMIT 1",
            arguments: [bytes]
        ).map { (try $0.scope(), $0.number("number")) }
    }

    /// Reads every version whole; throws at the first that cannot be.
    static func readAll(_ db: Database) throws {
        let rows = try Row.fetchCursor(
            db,
            sql: "SELECT \(metadataColumns), version.content, scope.project, scope.namespace FROM version "
                + "JOIN scope ON scope.id = version.scope")
        while let row = try rows.next() {
            let scope = try row.scope()
            do { _ = try storedVersion(row, of: scope) } catch {
                throw StoreError.damaged("version \(row["number"] as Int64) of \(scope) cannot be read: \(error)")
            }
        }
    }

    private static func storedVersion(_ row: Row, of scope: Scope) throws -> StoredVersion {
        let content = Array((row["content"] as String).utf8)
        let template = try Template(stored: JSONValue.parse(content))
        return StoredVersion(change: try change(row, of: scope), template: template, content: content)
    }

    /// An enum value this program does not know reads as unspecified rather than making the version unreadable.
    private static func change(_ row: Row, of scope: Scope) throws -> TemplateChange {
        let metadata = VersionMetadata(
            number: row.number("number"),
            updateTime: Timestamp(microseconds: row["updateTime"]),
            updateUser: UpdateUser(name: row["userName"], email: row["userEmail"], imageURL: row["userImage"]),
            description: row["description"], updateOrigin: UpdateOrigin(rawValue: row["origin"]) ?? .unspecified,
            updateType: UpdateType(rawValue: row["type"]) ?? .unspecified,
            rollbackSource: (row["rollbackSource"] as Int64?).map { VersionNumber(clamping: $0) })
        let keys = try (row["changedKeys"] as String?).map { try JSONValue.parse($0.utf8) }
        return TemplateChange(
            scope: scope, sequence: CommitSequence(row["sequence"] as Int64), metadata: metadata, etag: row["etag"],
            changedKeys: keys?.array?.compactMap(\.string))
    }
}

extension Database {
    /// Runs a statement that is compiled once for each connection: compiling one through GRDB costs more than most of
    /// them.
    func run(_ sql: String, _ arguments: StatementArguments = StatementArguments()) throws {
        try cachedStatement(sql: sql).execute(arguments: arguments)
    }
}

extension Row {
    /// Scope in the columns `project` and `namespace`.
    func scope() throws -> Scope {
        try Scope(project: ProjectID(self["project"]), namespace: Namespace(self["namespace"]))
    }

    /// JSON in the column `record`.
    func record() throws -> JSONValue { try JSONValue.parse((self["record"] as String).utf8) }

    /// Version's number in a column; stores made before numbers were limited may hold higher ones.
    func number(_ column: String) -> VersionNumber { VersionNumber(clamping: self[column] as Int64) }
}

extension Scope {
    /// Values of `project` and `namespace`.
    var arguments: StatementArguments { [project.description, namespace.description] }
}
