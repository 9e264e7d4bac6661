import GRDB
package import StalecastWire

/// Report of what ``TemplateStore/restore(from:to:above:isRehearsal:now:)`` did, or would do.
package struct RestoreReport: Sendable, Hashable {
    package var summary = BackupSummary()
    /// Above these the numbers go on; they are at least the backup's own.
    package var floors = NumberFloors()
    /// True when the data directory knew a store before, so that ``floors`` covers what its clients hold.
    package var knowsReplaced = false
    /// The replaced store's new name, or its log's where only that was left; nil when there was neither.
    package var kept: String?
    /// Stores that former restores had replaced, and logs of lost ones, that were removed now, because newer stores are
    /// kept.
    package var removed: [String] = []
    /// True when the webhooks' databases were replaced as well.
    package var hasWebhooks = false
}

extension TemplateStore {
    /// Replaces the store of a data directory by a copy of a backup, and the webhooks' databases with it when the
    /// backup has them. The copy gets a new epoch, and its numbers go on above all that the replaced store gave away:
    /// clients take no lower version for news, and an ETag must never mean two things. Blocks.
    ///  The replaced databases stay beside it as `….before-restore-<time>`, with their `-wal` if they had one; of those
    /// the newest ``keptReplaced`` stay. The restored ones are opened once before this returns.
    ///
    /// - Parameters:
    ///   - above: numbers go on above this one at least: what clients of a store that is not in `directory` may hold.
    ///   - isRehearsal: nothing is changed.
    /// - Throws: ``StoreError/damaged(_:)`` or ``StoreError/notAStore(_:)`` for a backup that is none,
    ///   ``StoreError/locked(_:)`` for a data directory in use, ``StoreError/diskFull(_:)``,
    ///   ``StoreError/inaccessible(_:)``; the data directory's store is the old one then, unless the sentence says
    ///   otherwise.
    package static func restore(
        from path: String, to directory: String, above: VersionNumber = 0, isRehearsal: Bool = false,
        now: Timestamp = .now()
    ) throws(StoreError) -> RestoreReport {
        var report = RestoreReport()
        report.summary = try verifyBackup(path)
        let directory = DataDirectory(directory)
        if isRehearsal, !FileOperation.exists(directory.path) {
            report.floors.raiseAll(to: above)
            return report
        }
        _ = try directory.prepare()
        let lock = try DirectoryLock(directory)
        defer { lock.release() }
        do {
            report.knowsReplaced = try raise(&report.floors, directory, path)
            report.floors.raiseAll(to: above)
            if isRehearsal { return report }
            try putInPlace(path, directory, &report, now)
            report.removed = try removeOldReplaced(directory)
        } catch {
            throw openingError(error, directory)
        }
        return report
    }

    /// Replaced stores that stay after a restore.
    static let keptReplaced = 3

    /// Collects what was given away: by the backup's store, by the one that is replaced, and, where the high-water mark
    /// is ahead of what can be read, by commits that cannot be read any more.
    ///
    /// - Returns: whether there was anything but the backup to ask.
    private static func raise(_ floors: inout NumberFloors, _ directory: DataDirectory, _ path: String) throws -> Bool {
        let (ours, own) = try DatabaseInspection.read(path) { (try NumberFloors.givenAway($0), try identity($0)) }
        floors = ours
        let replaced = try givenAway(directory)
        if let replaced { floors.raise(to: replaced.floors) }
        guard FileOperation.exists(directory.highWaterMark) else { return replaced != nil }
        guard case .mark(let mark) = try HighWaterMark(directory.highWaterMark).found else { return replaced != nil }
        var known: CommitSequence = 0
        if own.0 == mark.epoch { known = own.1 }
        if let replaced, replaced.mark.epoch == mark.epoch { known = max(known, replaced.mark.head) }
        // Each commit that cannot be read may have given a number to any scope.
        if mark.head > known { floors.raise(by: mark.head - known) }
        return replaced != nil || mark.head > 0
    }

    /// Numbers that the data directory's store gave away; nil when there is none, or it cannot be read.
    private static func givenAway(
        _ directory: DataDirectory
    ) throws -> (floors: NumberFloors, mark: HighWaterMark.Reading)? {
        guard FileOperation.exists(directory.database) else { return nil }
        do {
            try DatabaseInspection.recognise(directory.database)
            try DatabaseInspection.verify(directory.database)
            return try DatabaseInspection.read(directory.database) { db in
                let (epoch, head) = try identity(db)
                return (try NumberFloors.givenAway(db), .init(epoch: epoch, head: head))
            }
        } catch is StoreError {
            return nil  // A damaged store is what one restores over; the mark is left to ask.
        }
    }

    private static func putInPlace(
        _ path: String, _ directory: DataDirectory, _ report: inout RestoreReport, _ now: Timestamp
    ) throws {
        try finishInterrupted(directory)
        let (reading, parts) = try stage(path, directory, report.floors)
        let suffix = ".before-restore-" + now.description.filter { $0.isLetter || $0.isNumber || $0 == "." }
        report.kept = try setAside(directory.database, suffix)
        // A start refuses the log of a lost database, and the backup may have none to put beside it.
        for part in BackupFile.sources(in: directory)
        where parts.contains(where: { part.hasSuffix("/" + $0) }) || !FileOperation.exists(part) {
            _ = try setAside(part, suffix)
        }
        // A crash after this leaves no database under its name: a start refuses while one that was set aside is there.
        try FileOperation.synchronize(directory.path)
        for part in parts { try moveIn(directory.path + "/" + part) }
        try moveIn(directory.database)
        try FileOperation.synchronize(directory.path)
        // Whatever comes of it, the files get their mark and their owner: they are in place.
        let opened = Result { try openOnce(directory, parts, report.kept) }
        let marked = Result { try HighWaterMark(directory.highWaterMark).establish(reading) }
        report.hasWebhooks = !parts.isEmpty
        let databases = [directory.database] + parts.map { directory.path + "/" + $0 }
        try FileOperation.giveToOwner(
            of: directory.path,
            databases.flatMap { [$0, $0 + "-wal", $0 + "-shm"] } + [directory.highWaterMark, directory.lock])
        try opened.get()
        try marked.get()
    }

    private static func moveIn(_ path: String) throws { try FileOperation.move(path + ".unfinished", to: path) }

    /// Opens the new databases under their names and closes them, as the next start will. Leaves no log beside them.
    private static func openOnce(_ directory: DataDirectory, _ parts: [String], _ kept: String?) throws {
        do {
            try DatabaseInspection.recognise(directory.database)
            try DatabaseInspection.verify(directory.database)
            try StoreConnection(directory).pool.close()
            for part in parts { try DatabaseInspection.verifyPart(directory.path + "/" + part) }
        } catch {
            let replaced = kept.map { "; what it replaced is \($0)" } ?? ""
            let cause = openingError(error, directory)
            let sentence =
                "the restored store was put in \(directory.path) and cannot be opened there: \(cause)\(replaced)"
            if case .diskFull = cause { throw StoreError.diskFull(sentence) }
            throw StoreError.inaccessible(sentence)
        }
    }

    /// Makes the complete new databases under their temporary names, in the data directory's file system.
    private static func stage(
        _ path: String, _ directory: DataDirectory, _ floors: NumberFloors
    ) throws -> (HighWaterMark.Reading, parts: [String]) {
        try removeUnfinished(directory)
        try FileOperation.createEmpty(directory.unfinished)
        let parts = try DatabaseInspection.read(path) { db in
            try db.execute(sql: "VACUUM INTO ?", arguments: [directory.unfinished])
            return try BackupFile.extract(db, to: directory)
        }
        let epoch = Epoch.random()
        let copy = try DatabaseQueue(path: directory.unfinished)
        try Schema.migrator.migrate(copy)
        let head = try copy.write { db in
            try BackupFile.strip(db)
            // A node's backup knows the history that the node followed; another one begins here.
            if try ReplicaTable.exists(db) { try ReplicaTable.drop(db) }
            // The audit log is not in a backup, so these entries would be missing in another log.
            try AuditTable.drop(db)
            try floors.write(db)
            try db.execute(sql: "UPDATE store SET epoch = ?", arguments: [epoch.description])
            return try Int64.fetchOne(db, sql: "SELECT head FROM store") ?? 0
        }
        // The dropped attachments would keep their pages in the file.
        try copy.vacuum()
        try copy.close()
        try FileOperation.synchronize(directory.unfinished)
        return (HighWaterMark.Reading(epoch: epoch, head: CommitSequence(head)), parts)
    }

    /// Renames a database, then its log: SQLite finds a log by the database's name, so the pair stays a working
    /// database. Between the two, and until the new one is there, a start refuses (see
    /// ``provideDatabase(_:_:beginEmpty:)``); the old database without its log, which would look sound, is never there
    /// under its own name.
    ///
    /// - Returns: the new name, or the log's where the database is lost; nil when there was nothing.
    private static func setAside(_ path: String, _ suffix: String) throws -> String? {
        let (kept, isThere) = (path + suffix, FileOperation.exists(path))
        for name in [kept, kept + "-wal"] where FileOperation.exists(name) {
            throw StoreError.alreadyExists("\(name) is already there; move it away")
        }
        if isThere { try FileOperation.move(path, to: kept) }
        // A lost database's log too: SQLite would take it for the new one's.
        let hasLog = try setLogAside(path, kept)
        return isThere ? kept : hasLog ? kept + "-wal" : nil
    }

    /// - Returns: whether there was a log that holds anything.
    @discardableResult private static func setLogAside(_ path: String, _ kept: String) throws -> Bool {
        let hasLog = (FileOperation.size(path + "-wal") ?? 0) > 0
        if hasLog { try FileOperation.move(path + "-wal", to: kept + "-wal") }
        try FileOperation.remove(path + "-wal")
        try FileOperation.remove(path + "-shm")
        return hasLog
    }

    /// A restore that was cut off between the two renames left a log whose database has its new name already, and the
    /// new database under its temporary name. Without the latter the log is of a database that was lost, and must not
    /// come beside one that an earlier restore replaced.
    private static func finishInterrupted(_ directory: DataDirectory) throws {
        for path in [directory.database] + BackupFile.attachments.map({ directory.path + "/" + $0 }) {
            guard !FileOperation.exists(path), FileOperation.exists(path + "-wal") else { continue }
            guard FileOperation.exists(path + ".unfinished") else { continue }
            guard let kept = try directory.replaced(path).last, !FileOperation.exists(kept + "-wal") else { continue }
            try setLogAside(path, kept)
        }
    }

    /// - Returns: the names that were removed; of a database with a log, the database's only.
    private static func removeOldReplaced(_ directory: DataDirectory) throws -> [String] {
        var removed: [String] = []
        for path in [directory.database] + BackupFile.attachments.map({ directory.path + "/" + $0 }) {
            // A log alone is no store, and counts for none.
            let all = try directory.replaced(path)
            guard let newest = all.filter(FileOperation.exists).dropLast(keptReplaced).last else { continue }
            for old in all where old <= newest {
                let files = ["", "-wal", "-shm"].map { old + $0 }.filter(FileOperation.exists)
                for file in files { try FileOperation.remove(file) }
                removed += files.prefix(1)
            }
        }
        return removed
    }
}
