import GRDB

/// A database that a newer program has written: what this one would read there may mean something else by now.
struct NewerDatabase: Error, CustomStringConvertible {
    let path: String

    var description: String {
        "\(path) was written by a newer stalecast; it was not changed; run the newer program, or restore a backup made before "
            + "the upgrade"
    }
}

extension DatabaseMigrator {
    /// Steps from one version of a schema to the next, named by their numbers from 1.
    init(_ steps: String...) {
        self.init()
        for (index, sql) in steps.enumerated() { registerMigration("\(index + 1)") { try $0.execute(sql: sql) } }
    }

    /// Brings a database to this program's schema.
    ///
    /// - Throws: ``NewerDatabase`` for one that is beyond it, `DatabaseError`.
    func migrateOlder(_ queue: DatabaseQueue, at path: String) throws {
        if try queue.read(hasBeenSuperseded) { throw NewerDatabase(path: path) }
        try migrate(queue)
    }
}
