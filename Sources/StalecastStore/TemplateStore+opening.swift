import GRDB
import StalecastWire

extension TemplateStore {
    /// Opens the store in `configuration.directory`, or makes an empty one. Blocks; takes well under a second.
    ///
    /// - Parameter log: hears of what an operator should know; called on any thread.
    /// - Throws: ``StoreError/locked(_:)`` when the directory is in use, ``StoreError/notAStore(_:)`` for a foreign
    ///   or newer file and ``StoreError/damaged(_:)`` for a damaged or lost one (which stay as they are),
    ///   ``StoreError/diskFull(_:)``, ``StoreError/inaccessible(_:)``, ``StoreError/misconfigured(_:)``.
    package static func open(
        _ configuration: StoreConfiguration, log: @escaping @Sendable (TemplateStore.LogLine) -> Void = { _ in }
    ) throws(StoreError) -> TemplateStore {
        let projects = try ProjectTable(configuration.projects)
        let (directory, log) = (DataDirectory(configuration.directory), StoreLog(take: log))
        if try directory.prepare() {
            log(.warning, "data directory is open to others", ["directory": directory.path])
        }
        let lock = try DirectoryLock(directory)
        do {
            for part in BackupFile.sources(in: directory) { try refuseLoneLog(of: part) }
            let replica = try configuration.replica.map { try makeWay(for: $0, directory) }
            let mark = try HighWaterMark(directory.highWaterMark)
            // Looked at before anything opens the database, which makes these files.
            let hasLostLog = directory.hasLostLog
            let isNew = try provideDatabase(
                directory, mark.found, beginEmpty: configuration.beginEmpty || replica != nil,
                epoch: replica?.epoch)
            if hasLostLog, !isNew, replica == nil { try refuseLostLog(directory, mark.found) }
            let connection = try StoreConnection(directory)
            let database = connection.pool
            let (epoch, head, beganAnew) =
                try replica.map {
                    let (epoch, head) = try settleReplica(database, mark, $0, directory, log)
                    return (epoch, head, false)
                } ?? settleEpoch(database, mark, isNew: isNew, log)
            let (current, releases, floors) = try database.read {
                (try VersionTable.allCurrent($0), try ReleaseTable.newest($0), try NumberFloors.stored($0))
            }
            let parts = TemplateStore.Parts(
                directory: directory, projects: projects, lock: lock, connection: connection, mark: mark, epoch: epoch,
                beganAnew: beganAnew, currentTemplates: CurrentTemplates(current, head: head), releases: releases,
                floors: floors)
            let store = TemplateStore(parts, configuration: configuration, log: log)
            store.beginSweep()
            return store
        } catch {
            throw openingError(error, directory)
        }
    }

    /// Makes the database when there is none and never was, else makes sure that it is ours and sound.
    private static func provideDatabase(
        _ directory: DataDirectory, _ mark: HighWaterMark.Finding, beginEmpty: Bool, epoch: Epoch?
    ) throws(StoreError) -> Bool {
        if FileOperation.exists(directory.database) {
            try DatabaseInspection.recognise(directory.database)
            try DatabaseInspection.verify(directory.database)
            return false
        }
        try refuseLoneLog(of: directory.database)
        do {
            if !beginEmpty { try refuseLoss(directory, mark) }
            try removeUnfinished(directory)
            // Made under another name: a crash leaves no half database at its place.
            try FileOperation.createEmpty(directory.unfinished)
            try Schema.create(at: directory.unfinished, epoch: epoch ?? .random())
            try FileOperation.synchronize(directory.unfinished)
            try FileOperation.move(directory.unfinished, to: directory.database)
            try FileOperation.synchronize(directory.path)
            return true
        } catch {
            throw openingError(error, directory)
        }
    }

    /// SQLite would delete the log beside a new database, and with it whatever it held.
    private static func refuseLoneLog(of database: String) throws(StoreError) {
        guard !FileOperation.exists(database), (FileOperation.size(database + "-wal") ?? 0) > 0 else { return }
        throw .notAStore(
            "\(database)-wal is there but \(database) is missing; nothing was changed; put the database back beside it, "
                + "restore a backup, or move the -wal file away to go on without what both held")
    }

    private static func refuseLoss(_ directory: DataDirectory, _ mark: HighWaterMark.Finding) throws {
        let advice = "put it back, restore a backup, or start with --begin-empty to begin without its versions"
        if try directory.replaced(directory.database).contains(where: FileOperation.exists) {
            throw StoreError.damaged(
                "\(directory.database) is missing, and one that a restore replaced is there: if that was cut off, run it again; or \(advice)"
            )
        }
        switch mark {
        case .missing: return
        case .mark(let mark) where mark.head == 0: return
        case .mark(let mark):
            throw StoreError.damaged(
                "\(directory.database) is missing, and it held \(mark.head) commits (is its disk mounted?); \(advice)")
        case .damaged:
            throw StoreError.damaged(
                "\(directory.database) is missing, although the file highwater shows that there was one; \(advice)")
        }
    }

    /// A process that was ended by force leaves `-shm` and, unless all of it was written back, `-wal`. Without the
    /// second the versions in it are gone, which must not pass for an older file that an operator has put in place.
    static func refuseLostLog(_ directory: DataDirectory, _ found: HighWaterMark.Finding) throws {
        let untouched = try DatabaseInspection.untouchedQueue(directory.database)
        let queue = try untouched ?? DatabaseInspection.readOnlyQueue(directory.database)
        let (epoch, head) = try queue.unsafeRead { try identity($0) }
        try queue.close()
        guard case .mark(let mark) = found, mark.epoch == epoch, head < mark.head else { return }
        // Looking made an empty one, which the next start must not take for the one that is missing.
        if FileOperation.size(directory.writeAheadLog) == 0 { try FileOperation.remove(directory.writeAheadLog) }
        throw StoreError.notAStore(
            "\(directory.writeAheadLog) is missing, and with it \(mark.head - head) of \(mark.head) commits; put it back, "
                + "restore a backup, or remove \(directory.sharedMemory) to go on with what \(directory.database) has")
    }

    /// Judges a directory that no process has open as a start does, without changing anything: an open would leave files
    /// of the caller's account.
    ///
    /// - Returns: false where there was no store yet.
    /// - Throws: what a start would say of a foreign, damaged, unreadable or missing database.
    package static func isReadable(in path: String) throws(StoreError) -> Bool {
        let directory = DataDirectory(path)
        let (isThere, hasLostLog) = (FileOperation.exists(directory.database), directory.hasLostLog)
        if isThere {
            try DatabaseInspection.recognise(directory.database)
            try DatabaseInspection.verify(directory.database, makesFiles: false)
        } else {
            try refuseLoneLog(of: directory.database)
        }
        for part in BackupFile.sources(in: directory) { try refuseLoneLog(of: part) }
        // Reading the mark would make its file.
        guard !isThere || hasLostLog, FileOperation.exists(directory.highWaterMark) else { return isThere }
        do {
            let found = try HighWaterMark(directory.highWaterMark).found
            if isThere { try refuseLostLog(directory, found) } else { try refuseLoss(directory, found) }
        } catch {
            throw openingError(error, directory)
        }
        return isThere
    }

    static func removeUnfinished(_ directory: DataDirectory) throws {
        for suffix in ["", "-journal", "-wal", "-shm"] { try FileOperation.remove(directory.unfinished + suffix) }
    }

    /// Keeps the epoch unless the high-water mark says that the database was rolled back or exchanged.
    ///
    /// - Returns: `beganAnew` is true when it was.
    private static func settleEpoch(
        _ database: DatabasePool, _ mark: HighWaterMark, isNew: Bool, _ log: StoreLog
    ) throws -> (Epoch, CommitSequence, beganAnew: Bool) {
        var (epoch, head) = try database.read { try identity($0) }
        if try database.read(ReplicaTable.exists) {
            epoch = try leaveLog(database, log)
            try mark.establish(.init(epoch: epoch, head: head))
            return (epoch, head, false)
        }
        // Clients hold numbers of the lost store: the new one goes on above them.
        if isNew, case .mark(let lost) = mark.found {
            try database.write { try numbersGivenAway(.mark(lost), epoch, head, $0).write($0) }
        }
        let reason = suspicion(mark.found, epoch: epoch, head: head, isNew: isNew, log)
        if let reason {
            let old = epoch
            epoch = .random()
            let new = epoch.description
            try database.write { db in
                try db.execute(sql: "UPDATE store SET epoch = ?", arguments: [new])
                try numbersGivenAway(mark.found, old, head, db).write(db)
            }
            log(
                .error, "database does not continue what was served, minted a new epoch",
                ["reason": reason, "old-epoch": old.description, "new-epoch": new, "head": String(head)])
        }
        try mark.establish(.init(epoch: epoch, head: head))
        return (epoch, head, reason != nil)
    }

    /// A database that is behind its mark gave away more numbers than it knows: at most one for each commit it lacks.
    static func numbersGivenAway(
        _ found: HighWaterMark.Finding, _ epoch: Epoch, _ head: CommitSequence, _ db: Database
    ) throws -> NumberFloors {
        var floors = try NumberFloors.givenAway(db)
        guard case .mark(let mark) = found else { return floors }
        let known = mark.epoch == epoch ? head : 0
        if mark.head > known { floors.raise(by: mark.head - known) }
        return floors
    }

    static func identity(_ db: Database) throws -> (Epoch, CommitSequence) {
        guard let row = try Row.fetchOne(db, sql: "SELECT epoch, head FROM store"), let epoch = Epoch(row["epoch"])
        else { throw StoreError.damaged("the database has no epoch; restore a backup or choose another --data") }
        return (epoch, CommitSequence(row["head"] as Int64))
    }

    /// Reason why the database must not be trusted; nil when it may be.
    private static func suspicion(
        _ found: HighWaterMark.Finding, epoch: Epoch, head: CommitSequence, isNew: Bool,
        _ log: StoreLog
    ) -> String? {
        switch found {
        case .mark(let mark) where isNew:
            log(.error, "database is gone, began an empty one", ["lost-head": String(mark.head)])
            return nil
        case .mark(let mark) where mark.epoch != epoch:
            return "the high-water mark is of epoch \(mark.epoch)"
        case .mark(let mark) where head < mark.head:
            return "the database ends at sequence \(head), the high-water mark at \(mark.head)"
        case .damaged where !isNew: return "the high-water mark is damaged"
        case .missing where !isNew:
            log(.warning, "high-water mark is missing, recreated it", ["head": String(head)])
            return nil
        case .mark, .damaged, .missing: return nil
        }
    }

    static func openingError(_ error: any Error, _ directory: DataDirectory) -> StoreError {
        switch error {
        case let error as StoreError: error
        case let error as FileOperation.Failure where error.isNoSpace:
            .diskFull("no space to open the store in \(directory.path) (\(error)); free some and start again")
        case let error as DatabaseError where error.isNoSpace || error.mayMeanNoSpace(at: directory.path):
            .diskFull("no space to open the store in \(directory.path) (\(cause(error))); free some and start again")
        case let error as DatabaseError where error.resultCode != .SQLITE_CORRUPT:
            .inaccessible("cannot open the store in \(directory.path): \(cause(error))")
        case is FileOperation.Failure: .inaccessible("cannot open the store in \(directory.path): \(error)")
        default:
            .damaged(
                "\(directory.database) is damaged (\((error as? DatabaseError).map(cause) ?? "\(error)")); restore a backup "
                    + "or choose another --data")
        }
    }
}
