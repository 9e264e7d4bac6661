import GRDB
package import StalecastWire
import Synchronization

/// API keys as records that mean nothing here: what is durable before it counts lies in one database.
extension TemplateStore {
    /// All records, in no order; blocks.
    package func keyRecords() throws(StoreError) -> [JSONValue] {
        try readNow { db in try Row.fetchAll(db, sql: "SELECT record FROM accessKey").map { try $0.record() } }
    }

    /// Stores a key's record in place of the one before. One change after the other: the closures run on the writer's
    /// queue and must be quick.
    ///
    /// - Parameters:
    ///   - make: the key as it shall be; nil changes nothing.
    ///   - removing: ids of records that make room for the new one.
    ///   - committed: called when it is durable, before the next change begins.
    /// - Returns: what `make` made.
    /// - Throws: as ``publish(_:)``.
    package func storeKey<Key: Sendable>(
        _ make: @escaping @Sendable () -> Key?,
        record: @escaping @Sendable (Key) -> (id: String, record: JSONValue),
        removing: @escaping @Sendable () -> [String] = { [] },
        committed: @escaping @Sendable (_ key: Key, _ removed: [String]) -> Void
    ) async throws(StoreError) -> Key? {
        let change = try await write { db -> (key: Key, removed: [String])? in
            guard let key = make() else { return nil }
            let ((id, record), removed) = (record(key), removing())
            try db.execute(
                sql: """
                    INSERT INTO accessKey (id, record) VALUES (?, ?)
                    ON CONFLICT (id) DO UPDATE SET record = excluded.record
                    """, arguments: [id, record.text()])
            for former in removed {
                try db.execute(sql: "DELETE FROM accessKey WHERE id = ?", arguments: [former])
            }
            return (key, removed)
        } committed: { change in
            if let change { committed(change.key, change.removed) }
        }
        return change?.key
    }

    /// Runs a transaction that makes no version, on the writer's queue.
    ///
    /// - Parameter committed: called when it is durable, before the next change begins.
    /// - Throws: as ``publish(_:)``.
    func write<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Value,
        committed: @escaping @Sendable (Value) -> Void = { _ in }
    ) async throws(StoreError) -> Value {
        if let refusal = state.withLock({ $0.admit(atMost: configuration.maxWaitingPublishes) }) { throw refusal }
        defer { state.withLock { $0.leave() } }
        return try await transact(body, committed: committed)
    }

    /// Runs a transaction on the writer's queue, however many publishes wait there.
    func transact<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Value, committed: @escaping @Sendable (Value) -> Void
    ) async throws(StoreError) -> Value {
        let result: Result<Value, StoreError> = await withCheckedContinuation { continuation in
            connection.inTurn { db in
                let result = Result { () throws(StoreError) in try self.transaction(db, body) }
                if case .success(let value) = result { committed(value) }
                continuation.resume(returning: result)
                self.checkpointIfDue()
            }
        }
        return try result.get()
    }

    /// Commits what `body` does, or nothing of it. The stage of a failure decides what the failure means.
    func transaction<Value>(_ db: Database, _ body: (Database) throws -> Value) throws(StoreError) -> Value {
        var stage = CommitFault.Stage.beforeCommit
        do {
            if let refusal = state.withLock(\.refusal) { throw refusal }
            try db.beginTransaction(.immediate)
            let value = try body(db)
            // An error after this may mean that the commit is on the disk.
            stage = .committing
            try db.commit()
            return value
        } catch {
            rollBack(db)
            throw judge(error, at: stage)
        }
    }
}
