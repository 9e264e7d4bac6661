import Foundation
import GRDB
package import StalecastWire

/// Contents of a backup, as `backup` and `restore` report them.
package struct BackupSummary: Sendable, Hashable {
    package struct ScopeSummary: Sendable, Hashable {
        package let scope: Scope
        package let latest: VersionNumber
        package let versions: Int
    }

    /// nil for a backup of a program that did not write it down.
    package var madeAt: Timestamp?
    package var scopes: [ScopeSummary] = []
    /// nil when the backup has no webhooks' databases: it is older than that, or there were none.
    package var webhooks: Int?
    /// True when the backup has a checksum and it matches; always false where it was not read through. Without one a
    /// changed value may not be noticed.
    package var hasChecksum = false

    package var versions: Int { scopes.reduce(0) { $0 + $1.versions } }
}

/// The parts of a backup beside the store: the databases of webhooks, each a whole SQLite file in a row of the table
/// `attachment`, sealed as they were. Keys and tokens are never in it.
enum BackupFile {
    /// Copied with the store and put back with it, in this order: a cursor must not be ahead of what was committed.
    static let attachments = ["deliveries.sqlite", "webhooks.sqlite"]
    /// SQLite's limit of one value.
    private static let maxAttachment: Int64 = 900_000_000

    /// The names of ``copies(of:beside:)`` for a backup at `path`, whether they are there or not.
    static func copyNames(beside path: String) -> [String] { attachments.map { "\(path).part-\($0)" } }

    /// Files that ``copies(of:beside:)`` copies, whether they are there or not.
    static func sources(in directory: DataDirectory) -> [String] { attachments.map { "\(directory.path)/\($0)" } }

    /// Copies what is in `directory` to files beside `path`.
    static func copies(of directory: DataDirectory, beside path: String) throws -> [(name: String, path: String)] {
        try zip(attachments, copyNames(beside: path)).compactMap { name, copy in
            let source = directory.path + "/" + name
            guard FileOperation.exists(source) else {
                guard (FileOperation.size(source + "-wal") ?? 0) == 0 else {
                    throw StoreError.inaccessible(
                        "\(source) is missing although its log \(source)-wal is there; put it back, or move the log away to "
                            + "make backups without what it held")
                }
                return nil
            }
            try self.copy(source, to: copy)
            return (name, copy)
        }
    }

    /// Adds `copies` to the backup at `path`, and the checksum of all of it.
    static func attach(_ copies: [(name: String, path: String)], to path: String, madeAt: Timestamp) throws {
        // The checksum is written into the finished file, in place of these bytes.
        let placeholder = BackupChecksum.placeholder()
        let queue = try DatabaseQueue(path: path)
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE attachment (name TEXT PRIMARY KEY, content BLOB NOT NULL) STRICT;
                    CREATE TABLE backup (
                      id INTEGER PRIMARY KEY CHECK (id = 1), madeAt INTEGER NOT NULL, checksum BLOB NOT NULL) STRICT;
                    """)
            try db.execute(
                sql: "INSERT INTO backup VALUES (1, ?, ?)", arguments: [madeAt.microseconds, Data(placeholder)])
            for (name, copy) in copies { try BackupParts.add(copy, as: name, db) }
        }
        try queue.close()
        try BackupChecksum.write(to: path, over: placeholder)
    }

    /// Copies a database as one file, also while the daemon writes it.
    private static func copy(_ source: String, to copy: String) throws {
        try FileOperation.remove(copy)
        try FileOperation.createEmpty(copy)
        try DatabaseInspection.copy(source, to: copy)
        guard FileOperation.size(copy) ?? 0 <= maxAttachment else {
            throw StoreError.inaccessible(
                "\(source) is too large for a backup; remove old attempts, or copy it by hand")
        }
    }

    /// Writes the parts of `backup`, complete and synchronised, as `<name>.unfinished` into `directory`.
    ///
    /// - Returns: their names.
    static func extract(_ db: Database, to directory: DataDirectory) throws -> [String] {
        guard try db.tableExists("attachment") else { return [] }
        var names: [String] = []
        for row in try Row.fetchAll(db, sql: "SELECT rowid, name FROM attachment") {
            guard let name = attachments.first(where: { $0 == row["name"] }) else { continue }
            let path = directory.path + "/" + name + ".unfinished"
            try FileOperation.remove(path)
            try BackupParts.write(row["rowid"], to: path, db)
            try FileOperation.synchronize(path)
            names.append(name)
        }
        return names
    }

    /// Takes out of a copy what only a backup has.
    static func strip(_ db: Database) throws {
        try db.execute(sql: "DROP TABLE IF EXISTS attachment; DROP TABLE IF EXISTS backup")
    }

    /// Reads a backup through.
    ///
    /// - Parameter isThorough: also opens every version and every part.
    static func summary(_ path: String, isThorough: Bool) throws -> BackupSummary {
        var checksum: Data?
        var summary = try DatabaseInspection.read(path) { db in
            var summary = BackupSummary()
            let sql = """
                SELECT project, namespace, latest, (SELECT count(*) FROM version WHERE scope = scope.id) AS versions
                FROM scope ORDER BY project, namespace
                """
            summary.scopes = try Row.fetchAll(db, sql: sql).map {
                .init(scope: try $0.scope(), latest: $0.number("latest"), versions: $0["versions"])
            }
            if try db.tableExists("backup") {
                summary.madeAt = try Int64.fetchOne(db, sql: "SELECT madeAt FROM backup").map(Timestamp.init)
                // Backups of 0.2.0 and older have these two only. A backup with a damaged column name is not one of them.
                if try db.columns(in: "backup").map(\.name) != ["id", "madeAt"] {
                    checksum = try Data.fetchOne(db, sql: "SELECT checksum FROM backup") ?? Data()
                }
            } else if try db.tableExists("attachment") {
                // A backup has both tables or neither: the other's name is damaged.
                checksum = Data()
            }
            if isThorough { try VersionTable.readAll(db) }
            summary.webhooks = try webhooks(db, path, isThorough: isThorough)
            return summary
        }
        guard isThorough, let checksum else { return summary }
        guard try BackupChecksum.isRight(path, Array(checksum)) else {
            throw StoreError.damaged(
                "\(path) is damaged (its checksum is wrong: bytes were changed since it was made); use another backup")
        }
        summary.hasChecksum = true
        return summary
    }

    /// Number of webhooks that are registered in the part that has them; nil without.
    private static func webhooks(_ db: Database, _ path: String, isThorough: Bool) throws -> Int? {
        guard try db.tableExists("attachment") else { return nil }
        var count: Int?
        for name in attachments {
            guard
                let row = try Int64.fetchOne(
                    db, sql: "SELECT rowid FROM attachment WHERE name = ?", arguments: [name])
            else { continue }
            let copy = try unpack(row, db, beside: path)
            defer { _ = unlink(copy) }
            try DatabaseInspection.read(copy) { part in
                let finding = isThorough ? try String.fetchOne(part, sql: "PRAGMA integrity_check(1)") : "ok"
                guard finding == "ok" else {
                    throw StoreError.damaged(
                        "\(name) in \(path) is damaged (\(finding ?? "no answer")); use another backup")
                }
                if name == "webhooks.sqlite" { count = try Int.fetchOne(part, sql: "SELECT count(*) FROM webhook") }
            }
        }
        return count
    }
}

extension BackupFile {
    /// Writes a part of a backup to a file of its own: beside the backup, where there was room for all of it, else in the
    /// directory for temporary files, which in a container is small.
    private static func unpack(_ row: Int64, _ db: Database, beside path: String) throws -> String {
        let name = "stalecast-\(Epoch.random())"
        let (near, elsewhere) = ("\(path).\(name)", NSTemporaryDirectory() + name)
        do {
            try BackupParts.write(row, to: near, db)
            return near
        } catch is FileOperation.Failure {
            try BackupParts.write(row, to: elsewhere, db)
            return elsewhere
        }
    }
}

extension TemplateStore {
    /// Says what a backup holds, having read all of it; nothing is changed. Blocks.
    ///
    /// - Throws: ``StoreError/damaged(_:)`` or ``StoreError/notAStore(_:)`` with what is wrong,
    ///   ``StoreError/inaccessible(_:)``.
    package static func verifyBackup(_ path: String) throws(StoreError) -> BackupSummary {
        guard FileOperation.exists(path) else {
            throw .inaccessible("there is no backup \(path); name the file that `stalecast backup` made")
        }
        try DatabaseInspection.recognise(path, advice: DatabaseInspection.backupAdvice)
        try DatabaseInspection.verify(path, upTo: .max, advice: DatabaseInspection.otherBackupAdvice)
        do {
            return try BackupFile.summary(path, isThorough: true)
        } catch let error as StoreError {
            throw error
        } catch let error as FileOperation.Failure {
            // A full disk here does not mean that the backup is damaged.
            let sentence = "\(path) could not be read through (\(error))"
            throw error.isNoSpace ? .diskFull("\(sentence); free some space") : .inaccessible(sentence)
        } catch {
            throw .damaged("\(path) is damaged (\(error)); \(DatabaseInspection.otherBackupAdvice)")
        }
    }
}
