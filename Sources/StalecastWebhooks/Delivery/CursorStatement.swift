import GRDB
import GRDBSQLite
import StalecastWire

/// Writes rows of `cursor`, thousands in one transaction: by SQLite's own calls, because GRDB's arguments cost more than
/// the row.
struct CursorStatement: ~Copyable {
    private let db: Database
    private let statement: SQLiteStatement
    private var scope: Scope?

    /// Gives every column a value. An update on conflict costs a third more and five allocations.
    private static let sql = """
        INSERT OR REPLACE INTO cursor
          (webhook, scope, version, sequence, attempt, ackVersion, ackSequence, givenUp, isRenewed)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)
        """

    init(_ db: Database) throws {
        self.db = db
        statement = try db.cachedStatement(sql: Self.sql).sqliteStatement
    }

    deinit { sqlite3_clear_bindings(statement) }

    /// - Parameter head: the webhook's last attempt.
    mutating func write(
        _ id: WebhookID, _ scope: Scope, _ record: JournalEntry.LaneRecord, head: Int64
    ) throws {
        if scope != self.scope {
            let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
            let result = sqlite3_bind_text(statement, 2, scope.description, -1, transient)
            guard result == SQLITE_OK else { throw failure(result) }
            self.scope = scope
        }
        sqlite3_bind_int64(statement, 3, record.cursor.version.rawValue)
        sqlite3_bind_int64(statement, 4, Int64(record.cursor.sequence))
        sqlite3_bind_int64(statement, 5, head)
        sqlite3_bind_int64(statement, 6, record.acknowledged.version.rawValue)
        sqlite3_bind_int64(statement, 7, Int64(record.acknowledged.sequence))
        sqlite3_bind_int64(statement, 8, Int64(record.givenUp))
        let result = withUnsafeTemporaryAllocation(byteCount: WebhookID.textLength, alignment: 1) { text in
            id.write(to: text)
            sqlite3_bind_text(
                statement, 1, text.baseAddress?.assumingMemoryBound(to: CChar.self), Int32(text.count), nil)
            let result = sqlite3_step(statement)
            sqlite3_reset(statement)
            return result
        }
        guard result == SQLITE_DONE else { throw failure(result) }
    }

    private func failure(_ code: Int32) -> DatabaseError {
        DatabaseError(resultCode: ResultCode(rawValue: code), message: db.lastErrorMessage, sql: Self.sql)
    }
}
