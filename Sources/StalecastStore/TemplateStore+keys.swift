import GRDB
package import StalecastWire
import Synchronization

/// API keys as records that mean nothing here: what is durable before it counts lies in one database.
extension TemplateStore {
    /// All records, in no order; blocks.
    ///
    /// - Throws: ``StoreError/readFailed(_:)``.
    package func keyRecords() throws(StoreError) -> [JSONValue] {
        do {
            return try database.read { db in
                try String.fetchAll(db, sql: "SELECT record FROM accessKey").map { try JSONValue.parse($0.utf8) }
            }
        } catch {
            throw .readFailed("\(error)")
        }
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
        let result: Result<Value, StoreError> = await withCheckedContinuation { continuation in
            connection.inTurn { db in
                let result = self.writeOnWriter(body, db)
                if case .success(let value) = result { committed(value) }
                self.state.withLock { $0.leave() }
                continuation.resume(returning: result)
                self.checkpointIfDue()
            }
        }
        return try result.get()
    }

    private func writeOnWriter<Value>(_ body: (Database) throws -> Value, _ db: Database) -> Result<Value, StoreError> {
        var stage = CommitFault.Stage.beforeCommit
        do {
            if let refusal = state.withLock(\.refusal) { throw refusal }
            try db.beginTransaction(.immediate)
            let value = try body(db)
            stage = .committing
            try db.commit()
            return .success(value)
        } catch {
            rollBack(db)
            return .failure(judge(error, at: stage))
        }
    }
}
