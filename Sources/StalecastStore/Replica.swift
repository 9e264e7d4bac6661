import GRDB
import StalecastRecords
package import StalecastWire

/// Position of a replica of a shared log.
package struct ReplicaState: Sendable, Hashable {
    package let epoch: Epoch
    package let head: CommitSequence
    /// Publish that made the entry at ``head``; empty while there is none.
    package let publish: String
    /// False until a replica that was begun empty has come to the log's end for the first time.
    package let isWhole: Bool

    package init(epoch: Epoch, head: CommitSequence, publish: String, isWhole: Bool) {
        (self.epoch, self.head, self.publish, self.isWhole) = (epoch, head, publish, isWhole)
    }
}

/// A version as a shared log holds it, or a step of the release of one.
package struct SharedVersion: Sendable {
    /// Change of the version; of a step that of the version which is released, at the step's sequence.
    package let change: TemplateChange
    /// The template's JSON as the store keeps it; nil for a step.
    package let content: [UInt8]?
    /// Identity of the publish that made it; 1 to 64 characters.
    package let publish: String
    /// Releases of the scope that it changes, as they are afterwards, oldest first.
    package let releases: [Release]

    package init(change: TemplateChange, content: [UInt8]?, publish: String, releases: [Release] = []) {
        (self.change, self.content, self.publish, self.releases) = (change, content, publish, releases)
    }
}

/// The version that a publish made.
package struct MadeVersion: Sendable {
    package let scope: Scope
    package let number: VersionNumber
    /// nil when retention has removed it: only its number is known.
    package let version: StoredVersion?
}

/// Gives versions their place where the order is shared with other stores. It calls
/// ``TemplateStore/apply(_:)`` when the place is known.
package protocol VersionAuthority: Sendable {
    /// Returns when the version is durable in the log, and applied here.
    ///
    /// - Throws: as ``TemplateStore/publish(_:)``.
    func commit(_ candidate: Candidate) async throws(StoreError) -> StoredVersion
    /// Returns when the store has what was in the log at the time of asking, or when the log does not answer in time.
    ///
    /// - Returns: false when the log did not answer.
    @discardableResult func refresh() async -> Bool
}

/// The SQL of what only replicas have.
enum ReplicaTable {
    /// Publishes whose identity is known, the newest; and all that may still be in the log.
    private static let keptPublishes: UInt64 = 100_000

    static func exists(_ db: Database) throws -> Bool { try db.tableExists("replica") }

    static func create(_ db: Database) throws {
        try db.execute(
            sql: """
                CREATE TABLE IF NOT EXISTS replica (
                    id INTEGER PRIMARY KEY CHECK (id = 1), publish TEXT NOT NULL, isWhole INTEGER NOT NULL
                ) STRICT;
                CREATE TABLE IF NOT EXISTS publish (
                    sequence INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, project TEXT NOT NULL,
                    namespace TEXT NOT NULL, number INTEGER NOT NULL, appliedAt INTEGER NOT NULL
                ) STRICT;
                INSERT OR IGNORE INTO replica VALUES (1, '', 0);
                """)
    }

    static func drop(_ db: Database) throws { try db.execute(sql: "DROP TABLE replica; DROP TABLE publish") }

    static func state(_ db: Database) throws -> (publish: String, isWhole: Bool)? {
        try Row.fetchOne(db, sql: "SELECT publish, isWhole FROM replica").map { ($0["publish"], $0["isWhole"]) }
    }

    static func note(_ version: SharedVersion, at now: Timestamp, _ db: Database) throws {
        let (change, sequence) = (version.change, version.change.sequence)
        // A node that has forgotten a key can let it land a second time; others must take that, too.
        try db.execute(
            sql: "INSERT OR REPLACE INTO publish VALUES (?, ?, ?, ?, ?, ?)",
            arguments: [
                Int64(sequence), version.publish, change.scope.project.description,
                change.scope.namespace.description, change.version.rawValue, now.microseconds,
            ])
        try db.execute(sql: "UPDATE replica SET publish = ?", arguments: [version.publish])
    }

    /// Notes what left the log: ``removed(appliedBefore:limit:_:)`` names it no more. Forgets old entries.
    static func noteRemoved(_ sequences: [CommitSequence], of head: CommitSequence, _ db: Database) throws {
        // The largest time hides them from `removed`, which looks for old entries.
        for sequence in sequences {
            try db.execute(
                sql: "UPDATE publish SET appliedAt = ? WHERE sequence = ?", arguments: [Int64.max, Int64(sequence)])
        }
        try db.execute(
            sql: "DELETE FROM publish WHERE sequence <= ? AND appliedAt = ?",
            arguments: [Int64(head - min(head, keptPublishes)), Int64.max])
    }

    /// Identities of a store's versions, which were published before it was a replica.
    static func noteStored(at now: Timestamp, _ publish: (CommitSequence) -> String, _ db: Database) throws {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT sequence, number, project, namespace FROM version JOIN scope ON scope.id = version.scope
                """)
        for row in rows {
            let sequence: Int64 = row["sequence"]
            try db.execute(
                sql: "INSERT OR IGNORE INTO publish VALUES (?, ?, ?, ?, ?, ?)",
                arguments: [
                    sequence, publish(CommitSequence(sequence)), row["project"] as String, row["namespace"] as String,
                    row["number"] as Int64, now.microseconds,
                ])
        }
    }

    /// The lowest sequences that may be in the log, and whose versions retention has let go, or which are steps of
    /// releases. The newest entry of a scope stays: it says where its release stands.
    static func removed(appliedBefore time: Timestamp, limit: Int, _ db: Database) throws -> [CommitSequence] {
        try Int64.fetchAll(
            db,
            sql: """
                SELECT sequence FROM publish WHERE appliedAt < ?
                AND NOT EXISTS (SELECT 1 FROM version WHERE version.sequence = publish.sequence)
                AND EXISTS (
                    SELECT 1 FROM publish AS later WHERE later.sequence > publish.sequence
                    AND (later.project, later.namespace) = (publish.project, publish.namespace))
                ORDER BY sequence LIMIT ?
                """, arguments: [time.microseconds, limit]
        ).map { CommitSequence($0) }
    }

    /// The newest version of a request. Identities of one request begin with one stem: see `PublishID` of the cluster.
    static func version(of publish: String, _ db: Database) throws -> (Scope, VersionNumber)? {
        let isStemmed = publish.utf8.count == PublishStem.idLength
        let (from, to) = isStemmed ? PublishStem.range(of: publish) : (publish, publish)
        return try Row.fetchOne(
            db,
            sql: """
                SELECT project, namespace, number FROM publish WHERE id >= ? AND id <= ?
                ORDER BY sequence DESC LIMIT 1
                """, arguments: [from, to]
        ).map { (try $0.scope(), $0.number("number")) }
    }
}
