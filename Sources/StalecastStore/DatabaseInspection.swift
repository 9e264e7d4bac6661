import Foundation
import GRDB
import GRDBSQLite

/// Decides whether a file may be opened as a store, without changing it.
enum DatabaseInspection {
    /// Databases up to this size are read through at every open; at a gigabyte per second that is a quarter second.
    static let maxCheckedBytes: Int64 = 256 << 20

    static let advice = "it was not changed; move it away, restore a backup, or choose another --data"
    /// Advice about a file that was to be read as a backup: one that is something else, and one that is broken.
    static let backupAdvice = "it is no backup; give a file that `stalecast backup` made"
    static let otherBackupAdvice = "use another backup"

    /// Looks at the first bytes only. The file must not be open in this process.
    ///
    /// - Throws: ``StoreError/damaged(_:)`` for anything that is not SQLite, ``StoreError/notAStore(_:)`` for a database
    ///   without our application id.
    static func recognise(_ path: String, advice: String = advice) throws(StoreError) {
        let header: [UInt8]
        do { header = try FileOperation.head(path, count: 100) } catch { throw .inaccessible("\(error)") }
        guard header.count == 100, header.starts(with: Array("SQLite format 3\0".utf8)) else {
            throw .damaged("\(path) is not a SQLite database; \(advice)")
        }
        let applicationID = header[68..<72].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        guard applicationID == Schema.applicationID else {
            throw .notAStore("\(path) is a SQLite database of another program; \(advice)")
        }
    }

    /// Checks schema and structure through a connection that cannot write, not even a checkpoint when it is closed.
    ///
    /// - Parameters:
    ///   - limit: files larger than this many bytes are not read through.
    ///   - makesFiles: false makes no index of the log either, for a database of another account. No process may have
    ///     the database open then. Where SQLite cannot read it so, nothing is checked.
    ///   - advice: end of the sentence about a file that is damaged or no store.
    static func verify(
        _ path: String, upTo limit: Int64 = maxCheckedBytes, makesFiles: Bool = true, advice: String = advice
    ) throws(StoreError) {
        do {
            guard let queue = try makesFiles ? readOnlyQueue(path) : untouchedQueue(path) else { return }
            try queue.unsafeRead { db in
                try verifySchema(db, path, advice)
                if FileOperation.size(path) ?? 0 <= limit { try verifyPages(db, path, advice) }
                try verifyCounters(db, path, advice)
            }
            try queue.close()
        } catch let error as StoreError {
            throw error
        } catch let error as DatabaseError where Self.meansDamage(error) {
            throw .damaged("\(path) is damaged (\(error.message ?? error.resultCode.description)); \(advice)")
        } catch let error as DatabaseError where error.isNoSpace || error.mayMeanNoSpace(at: path) {
            throw .diskFull("no space to open the store \(path) (\(error)); free some and start again")
        } catch {
            throw .inaccessible("cannot read \(path): \(error)")
        }
    }

    /// Reads a database of webhooks through, as far as its structure goes, and leaves no log beside it.
    static func verifyPart(_ path: String) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.inDatabase { try verifyPages($0, path, advice) }
        try queue.close()
    }

    /// A connection beside the daemon's own, for backups and checks.
    static func readOnlyQueue(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.readonly = true
        configuration.busyMode = .timeout(5)
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    /// Reads one state of a database over a connection beside the daemon's own, which may write meanwhile.
    static func read<Value>(_ path: String, _ body: (Database) throws -> Value) throws -> Value {
        let queue = try readOnlyQueue(path)
        let value = try queue.unsafeRead(body)
        try queue.close()
        return value
    }

    /// Writes one state of a database to the empty file at `copy`, which needs no log beside it. Takes no lock of the
    /// writer's.
    static func copy(_ source: String, to copy: String) throws {
        try read(source) { try $0.execute(sql: "VACUUM INTO ?", arguments: [copy]) }
    }

    /// A connection that makes no file, to a database that no process has open; nil where SQLite cannot do that.
    static func untouchedQueue(_ path: String) throws -> DatabaseQueue? {
        let name = path.addingPercentEncoding(withAllowedCharacters: .urlPathAllowed)
        guard let name, sqlite3_compileoption_used("USE_URI") != 0 else { return nil }
        let hasLog = FileOperation.size(path + "-wal") ?? 0 > 0
        // A connection that may not write can read a log only by the index that the last process left.
        if hasLog, !FileOperation.exists(path + "-shm") { return nil }
        let place = path.hasPrefix("/") ? "file://\(name)" : "file:\(name)"
        return try readOnlyQueue(place + (hasLog ? "?readonly_shm=1" : "?immutable=1"))
    }

    private static func meansDamage(_ error: DatabaseError) -> Bool {
        [.SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_ERROR, .SQLITE_MISMATCH].contains(error.resultCode)
    }

    private static func verifySchema(_ db: Database, _ path: String, _ advice: String) throws {
        let applicationID = try Int64.fetchOne(db, sql: "PRAGMA application_id")
        guard applicationID == Int64(Schema.applicationID) else {
            throw StoreError.notAStore("\(path) is a SQLite database of another program; \(advice)")
        }
        let version = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
        guard try version <= Schema.version && !Schema.migrator.hasBeenSuperseded(db) else {
            throw StoreError.notAStore(
                "\(path) was written by a newer stalecast (schema \(version), this one knows \(Schema.version)); "
                    + "it was not changed; run the newer program, or restore a backup made before the upgrade")
        }
    }

    private static func verifyPages(_ db: Database, _ path: String, _ advice: String) throws {
        let finding = try String.fetchOne(db, sql: "PRAGMA quick_check(1)")
        guard finding == "ok" else {
            throw StoreError.damaged("\(path) is damaged (\(finding ?? "no answer")); \(advice)")
        }
    }

    /// Checks the rules that no bug and no bad sector may break: one identity, a head that covers every version, and
    /// every scope's newest version present.
    private static func verifyCounters(_ db: Database, _ path: String, _ advice: String) throws {
        let isSound = try Bool.fetchOne(
            db,
            sql: """
                SELECT (SELECT count(*) FROM store WHERE length(epoch) = 26) = 1
                   AND (SELECT coalesce(min(sequence), 1) FROM version) >= 1
                   AND (SELECT coalesce(max(sequence), 0) FROM version) <= (SELECT head FROM store)
                   AND (SELECT head FROM store) <= 9007199254740992
                   AND NOT EXISTS (SELECT 1 FROM scope WHERE NOT EXISTS (
                       SELECT 1 FROM version WHERE version.scope = scope.id AND version.number = scope.latest))
                """)
        guard isSound == true else {
            throw StoreError.damaged("\(path) is damaged (its counters contradict its versions); \(advice)")
        }
    }
}
