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
            AuditEntry.Stored(
                sequence: CommitSequence($0["sequence"] as Int64), version: $0.number("number"), after: $0["line"],
                members: try $0.record().object ?? [:])
        }
    }

    static func remove(_ sequences: [CommitSequence], _ db: Database) throws {
        // Nearly all follow each other: a statement for each of a thousand would take milliseconds of a publish.
        var runs: [ClosedRange<CommitSequence>] = []
        for sequence in sequences.sorted() {
            if let last = runs.last, last.upperBound + 1 == sequence {
                runs[runs.count - 1] = last.lowerBound...sequence
            } else {
                runs.append(sequence...sequence)
            }
        }
        for run in runs {
            try db.run(
                "DELETE FROM auditEntry WHERE sequence BETWEEN ? AND ?",
                [Int64(clamping: run.lowerBound), Int64(clamping: run.upperBound)])
        }
    }

    static func removeAll(_ db: Database) throws { try db.run("DELETE FROM auditEntry") }
}

/// Commits whose lines are durable and whose entries are still stored, oldest first. Each is removed by its own number:
/// an entry whose line could not be written then keeps only itself in the table, and not all that came after it.
struct AuditBacklog: Sendable {
    private(set) var removable: [CommitSequence] = []

    mutating func add(_ sequences: [CommitSequence]) { removable += sequences }

    /// Takes in that the first `count` were removed. Only the store's writer removes entries, so they are the first still.
    mutating func removed(_ count: Int) { removable.removeFirst(count) }
}

extension TemplateStore {
    /// Entries whose lines may be missing in the log's file: the process before this one may have ended between commit
    /// and line, or the power went before the line was on the disk. Blocks.
    package func auditEntries() throws(StoreError) -> [AuditEntry.Stored] {
        try readNow(AuditTable.all)
    }

    /// The lines of all entries are durable. Blocks; for the start, before there are others.
    package func removeAuditEntries() throws(StoreError) {
        do { try database.write(AuditTable.removeAll) } catch {
            throw .unavailable("entries of the audit log were not removed: \(error)")
        }
    }

    /// The lines of these commits are durable: their entries go with the transaction of a later publish.
    package func forgetAuditEntries(of commits: [CommitSequence]) {
        state.withLock { $0.auditBacklog.add(commits) }
    }

    /// Removes the entries that were forgotten, without waiting for a publish. Blocks for a transaction. When it fails, they
    /// go with a later publish.
    package func removeForgottenAuditEntries() throws(StoreError) {
        do {
            try database.writeWithoutTransaction { db in
                let removable = state.withLock(\.auditBacklog.removable)
                if removable.isEmpty { return }
                try db.inTransaction(.immediate) {
                    try AuditTable.remove(removable, db)
                    return .commit
                }
                state.withLock { $0.auditBacklog.removed(removable.count) }
            }
        } catch {
            throw .unavailable("entries of the audit log were not removed: \(error)")
        }
    }
}
