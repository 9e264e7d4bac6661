import GRDB
package import StalecastWire
import Synchronization

/// Entry of the audit log that belongs to a change. The transaction that commits the change stores it, so that it is as
/// durable as the change; the line in the log's file is a copy that comes later.
package final class AuditEntry: Sendable {
    /// Entry of what the current task changes; nil: none. Travels with the task, so that no function between a request
    /// and the transaction has to pass it on.
    @TaskLocal package static var current: AuditEntry?

    /// Members of the line that are known before the change.
    package let members: JSONObject
    /// Number of the log's last line before the change: the entry's own has a higher one.
    package let after: Int64
    private let made = Mutex<[CommitSequence]>([])

    package init(_ members: JSONObject, after: Int64) {
        self.members = members
        self.after = after
    }

    /// Commits that the entry is stored with.
    package var commits: [CommitSequence] { made.withLock(\.self) }

    func committed(_ sequence: CommitSequence) { made.withLock { $0.append(sequence) } }

    /// An entry that was found in the store.
    package struct Stored: Sendable {
        package let sequence: CommitSequence
        package let version: VersionNumber
        package let after: Int64
        package let members: JSONObject
    }
}

/// Entries of the audit log whose lines may not be durable yet. The table is not part of ``Schema``: older versions of
/// the daemon leave it alone, and a restored store has none.
enum AuditTable {
    static func create(_ db: Database) throws {
        try db.execute(
            sql: """
                CREATE TABLE IF NOT EXISTS auditEntry (
                    sequence INTEGER PRIMARY KEY, number INTEGER NOT NULL, line INTEGER NOT NULL, record TEXT NOT NULL
                ) STRICT
                """)
    }

    static func drop(_ db: Database) throws { try db.execute(sql: "DROP TABLE IF EXISTS auditEntry") }

    static func add(_ entry: AuditEntry, of version: StoredVersion, _ db: Database) throws {
        try db.run(
            "INSERT OR REPLACE INTO auditEntry VALUES (?, ?, ?, ?)",
            [
                Int64(version.change.sequence), version.version.rawValue, entry.after,
                JSONValue.object(entry.members).text(),
            ])
    }

    /// Oldest first.
    static func all(_ db: Database) throws -> [AuditEntry.Stored] {
        try Row.fetchAll(db, sql: "SELECT sequence, number, line, record FROM auditEntry ORDER BY sequence").map {
            row in
            AuditEntry.Stored(
                sequence: CommitSequence(row["sequence"] as Int64),
                version: VersionNumber(clamping: row["number"] as Int64), after: row["line"],
                members: try JSONValue.parse((row["record"] as String).utf8).object ?? [:])
        }
    }

    static func remove(before sequence: CommitSequence, _ db: Database) throws {
        try db.run("DELETE FROM auditEntry WHERE sequence < ?", [Int64(clamping: sequence)])
    }
}

/// Commits whose entries are stored and whose lines are not known to be durable.
struct AuditBacklog: Sendable {
    private var open: Set<CommitSequence> = []
    private var end: CommitSequence = 0
    /// Entries of lower sequences are to be removed; nil when that was done.
    private var removable: CommitSequence?

    mutating func add(_ sequence: CommitSequence) {
        open.insert(sequence)
        end = max(end, sequence)
    }

    mutating func remove(_ sequences: [CommitSequence]) {
        open.subtract(sequences)
        removable = open.min() ?? end + 1
    }

    mutating func takeRemovable() -> CommitSequence? {
        defer { removable = nil }
        return removable
    }
}

extension TemplateStore {
    /// Entries whose lines may be missing in the log's file: the process before this one may have ended between commit
    /// and line, or the power went before the line was on the disk. Blocks.
    package func auditEntries() throws(StoreError) -> [AuditEntry.Stored] {
        do { return try database.read(AuditTable.all) } catch { throw .readFailed("\(error)") }
    }

    /// The lines of all entries are durable. Blocks; for the start, before there are others.
    package func removeAuditEntries() throws(StoreError) {
        do { try database.write { try AuditTable.remove(before: .max, $0) } } catch {
            throw .unavailable("entries of the audit log were not removed: \(error)")
        }
    }

    /// The lines of these commits are durable: their entries go with the transaction of a later publish.
    package func forgetAuditEntries(of commits: [CommitSequence]) {
        state.withLock { $0.auditBacklog.remove(commits) }
    }
}
