import GRDB
import StalecastWire

extension TemplateStore {
    /// Sees to it that the data directory holds nothing, or a replica of this log.
    ///
    /// - Throws: ``StoreError/misconfigured(_:)`` for a store of its own that has versions, or for nothing where the
    ///   log cannot be asked.
    static func makeWay(
        for replica: StoreConfiguration.Replica, _ directory: DataDirectory
    ) throws -> StoreConfiguration.Replica {
        guard FileOperation.exists(directory.database) else {
            guard replica.epoch != nil else {
                throw StoreError.misconfigured("there is no replica in \(directory.path), and the log cannot be asked")
            }
            return replica
        }
        try DatabaseInspection.recognise(directory.database)
        try DatabaseInspection.verify(directory.database)
        let (isReplica, (_, head)) = try DatabaseInspection.read(directory.database) {
            (try ReplicaTable.exists($0), try identity($0))
        }
        guard isReplica || head == 0 else {
            throw StoreError.misconfigured(
                "\(directory.database) holds \(head) commits that are not of this cluster; put them into its log with "
                    + "`stalecast migrate --to-etcd`, or give this node another --data")
        }
        return replica
    }

    /// Starts an empty replica, after setting the old content aside, where the old one is of another history or is not
    /// known to be a part of the log. One that is only behind the log goes on there.
    static func settleReplica(
        _ database: DatabasePool, _ mark: HighWaterMark, _ replica: StoreConfiguration.Replica,
        _ directory: DataDirectory, _ log: StoreLog
    ) throws -> (Epoch, CommitSequence) {
        try database.write(ReplicaTable.create)
        var (epoch, head) = try database.read(identity)
        let state = try database.read(ReplicaTable.state)
        let isPart = state.map { $0.isWhole || !$0.publish.isEmpty } ?? false
        if let wanted = replica.epoch, wanted != epoch || !isPart {
            if head > 0, wanted != epoch {
                let kept = "\(directory.database).of-epoch-\(epoch)"
                try FileOperation.remove(kept)
                // SQLite refuses VACUUM inside a transaction, which GRDB's `read` begins and `unsafeRead` does not.
                try database.unsafeRead { try $0.execute(sql: "VACUUM INTO ?", arguments: [kept]) }
                log(
                    .warning, "the log has another history, the replica begins anew",
                    ["old-epoch": "\(epoch)", "new-epoch": "\(wanted)", "kept": kept])
            }
            try database.write { try beginAnew(wanted, $0) }
            (epoch, head) = (wanted, 0)
        }
        try database.write { try replica.floors.write($0) }
        try mark.establish(.init(epoch: epoch, head: head))
        return (epoch, head)
    }

    /// Keys, proposals and messages stay; numbers go on above those that were given away.
    private static func beginAnew(_ epoch: Epoch, _ db: Database) throws {
        try NumberFloors.givenAway(db).write(db)
        try db.execute(
            sql: """
                DELETE FROM version; DELETE FROM scope; DELETE FROM publish; DELETE FROM propagation;
                DELETE FROM release;
                UPDATE replica SET publish = '', isWhole = 0
                """)
        try db.execute(sql: "UPDATE store SET epoch = ?, head = 0", arguments: [epoch.description])
    }

    /// A replica that is opened as a store of its own has a history of its own from here on.
    static func leaveLog(_ database: DatabasePool, _ log: StoreLog) throws -> Epoch {
        let epoch = Epoch.random()
        try database.write { db in
            try NumberFloors.givenAway(db).write(db)
            try ReplicaTable.drop(db)
            try db.execute(sql: "UPDATE store SET epoch = ?", arguments: [epoch.description])
        }
        log(.warning, "the replica left its cluster, and has a new epoch", ["new-epoch": "\(epoch)"])
        return epoch
    }

    /// Numbers that this store gave away, for the charter of a history that follows: by `project/namespace`; blocks.
    package func numbersGivenAway() throws(StoreError) -> NumberFloors {
        try readNow(NumberFloors.givenAway)
    }

    /// Floors of the numbers given away in other histories than the replica's, and the part of them that is above its
    /// own versions.
    package func floors() async throws(StoreError) -> (all: NumberFloors, above: NumberFloors) {
        try await read { (try NumberFloors.stored($0), try NumberFloors.aboveStored($0)) }
    }

    /// Raises the floors: from now on no number up to these is given away here.
    ///
    /// - Throws: as ``publish(_:)``.
    package func raiseFloors(to floors: NumberFloors) async throws(StoreError) {
        try await write { db in try floors.write(db) }
    }
}
