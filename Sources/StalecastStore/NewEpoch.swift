import GRDB
package import StalecastWire

/// Result of ``TemplateStore/beginNewEpoch(in:above:isRehearsal:)``, done or rehearsed.
package struct NewEpochReport: Sendable, Hashable {
    package let oldEpoch: Epoch
    /// nil for a rehearsal.
    package var newEpoch: Epoch?
    package let latest: [Scope: VersionNumber]
    /// Numbers go on above these.
    package let floors: NumberFloors
}

extension TemplateStore {
    /// Gives the store of a data directory a new epoch and keeps its versions: for a directory that was put back from a
    /// snapshot, which cannot be told from the store before it. Clients with a cursor of before are sent a reset. Blocks.
    ///
    /// - Parameters:
    ///   - above: numbers go on above this one at least. Clients may hold versions that came after the snapshot.
    ///   - isRehearsal: nothing is changed.
    /// - Throws: ``StoreError/locked(_:)`` while a daemon uses the directory, ``StoreError/notAStore(_:)`` also for the
    ///   copy that a node of a cluster keeps, ``StoreError/inaccessible(_:)``, ``StoreError/diskFull(_:)``.
    package static func beginNewEpoch(
        in directory: String, above: VersionNumber = 0, isRehearsal: Bool = false
    ) throws(StoreError) -> NewEpochReport {
        let directory = DataDirectory(directory)
        guard FileOperation.exists(directory.database) else {
            throw .inaccessible("there is no store in \(directory.path); give its data directory with --data")
        }
        let lock = try DirectoryLock(directory)
        defer { lock.release() }
        do {
            let mark = try HighWaterMark(directory.highWaterMark)
            let hasLostLog = directory.hasLostLog
            try DatabaseInspection.recognise(directory.database)
            try DatabaseInspection.verify(directory.database)
            if hasLostLog { try refuseLostLog(directory, mark.found) }
            var (report, head) = try DatabaseInspection.read(directory.database) {
                try rehearse($0, mark.found, directory, above)
            }
            if isRehearsal { return report }
            let epoch = Epoch.random()
            let database = try StoreConnection(directory).pool
            try database.write { db in
                try report.floors.write(db)
                try db.execute(sql: "UPDATE store SET epoch = ?", arguments: [epoch.description])
            }
            try database.close()
            // After the database: a mark of the old epoch makes the next start mint one once more.
            try mark.establish(.init(epoch: epoch, head: head))
            try FileOperation.giveToOwner(
                of: directory.path,
                ["", "-wal", "-shm"].map { directory.database + $0 } + [directory.highWaterMark, directory.lock])
            report.newEpoch = epoch
            return report
        } catch {
            throw openingError(error, directory)
        }
    }

    private static func rehearse(
        _ db: Database, _ found: HighWaterMark.Finding, _ directory: DataDirectory, _ above: VersionNumber
    ) throws -> (NewEpochReport, head: CommitSequence) {
        guard try !ReplicaTable.exists(db) else {
            throw StoreError.notAStore(
                "\(directory.path) holds a node's copy of a cluster's log; use `stalecast cluster new-epoch`")
        }
        let (epoch, head) = try identity(db)
        var floors = try numbersGivenAway(found, epoch, head, db)
        floors.raiseAll(to: above)
        return (NewEpochReport(oldEpoch: epoch, latest: try NumberFloors.latest(db), floors: floors), head)
    }
}
