import GRDB
package import StalecastWire

extension TemplateStore {
    /// Replaces the store of a data directory by a copy of a backup, under a new epoch: cursors and ETags that clients
    /// got from the replaced history must not match by accident. Blocks.
    ///
    /// The replaced database stays beside it as `stalecast.sqlite.before-restore-<time>`, with its `-wal` if it had
    /// one.
    ///
    /// - Throws: ``StoreError/notAStore(_:)`` for a backup that is none, ``StoreError/locked(_:)`` for a data directory
    ///   in use, ``StoreError/diskFull(_:)``, ``StoreError/inaccessible(_:)``; the data directory's store is the old
    ///   one then.
    package static func restore(
        from path: String, to directory: String, now: Timestamp = .now()
    ) throws(StoreError) {
        guard FileOperation.exists(path) else { throw .inaccessible("there is no backup \(path)") }
        try DatabaseInspection.recognise(path)
        try DatabaseInspection.verify(path, upTo: .max)
        let directory = DataDirectory(directory)
        _ = try directory.prepare()
        let lock = try DirectoryLock(directory)
        defer { lock.release() }
        do {
            let reading = try stage(path, directory)
            try keepReplaced(directory, now)
            try FileOperation.remove(directory.writeAheadLog)
            try FileOperation.remove(directory.sharedMemory)
            try FileOperation.move(directory.unfinished, to: directory.database)
            try FileOperation.synchronize(directory.path)
            try HighWaterMark(directory.highWaterMark).establish(reading)
        } catch {
            throw openingError(error, directory)
        }
    }

    /// Makes the complete new database under its temporary name, in the data directory's file system.
    private static func stage(_ path: String, _ directory: DataDirectory) throws -> HighWaterMark.Reading {
        try removeUnfinished(directory)
        try FileOperation.createEmpty(directory.unfinished)
        let source = try DatabaseInspection.readOnlyQueue(path)
        try source.unsafeRead { try $0.execute(sql: "VACUUM INTO ?", arguments: [directory.unfinished]) }
        try source.close()
        let epoch = Epoch.random()
        let copy = try DatabaseQueue(path: directory.unfinished)
        let head = try copy.write { db in
            try db.execute(sql: "UPDATE store SET epoch = ?", arguments: [epoch.description])
            return try Int64.fetchOne(db, sql: "SELECT head FROM store") ?? 0
        }
        try copy.close()
        try FileOperation.synchronize(directory.unfinished)
        return HighWaterMark.Reading(epoch: epoch, head: CommitSequence(head))
    }

    /// Gives the old database and its log second names, so that there is never a moment without them. SQLite finds a
    /// log by the database's name, so the pair stays a working database.
    private static func keepReplaced(_ directory: DataDirectory, _ now: Timestamp) throws {
        guard FileOperation.exists(directory.database) else { return }
        let time = now.description.filter { $0.isLetter || $0.isNumber || $0 == "." }
        let kept = "\(directory.database).before-restore-\(time)"
        try FileOperation.giveName(kept, to: directory.database)
        if (FileOperation.size(directory.writeAheadLog) ?? 0) > 0 {
            try FileOperation.giveName(kept + "-wal", to: directory.writeAheadLog)
        }
        try FileOperation.synchronize(directory.path)
    }
}
