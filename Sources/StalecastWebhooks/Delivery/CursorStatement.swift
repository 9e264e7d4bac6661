import GRDB
import GRDBSQLite
import StalecastWire

/// Writes rows of `cursor`, thousands in one transaction: by SQLite's own calls, because GRDB's arguments cost more than
/// the row, and several rows in one statement, which saves a seventh.
struct CursorStatement: ~Copyable {
    private typealias Row = (id: WebhookID, record: JournalEntry.LaneRecord, head: Int64)

    private let db: Database
    private let one: SQLiteStatement
    private let several: SQLiteStatement
    private var scope: Scope?
    /// Rows of ``scope`` that are not written yet.
    private var rows: [Row] = []

    private static let rowsAtOnce = 16
    /// Parameters of a row; the scope is one parameter for all rows.
    private static let width: Int32 = 7

    init(_ db: Database) throws {
        let one = try db.cachedStatement(sql: Self.sql(rows: 1)).sqliteStatement
        let several = try db.cachedStatement(sql: Self.severalSQL).sqliteStatement
        (self.db, self.one, self.several) = (db, one, several)
        rows.reserveCapacity(Self.rowsAtOnce)
    }

    deinit {
        sqlite3_clear_bindings(one)
        sqlite3_clear_bindings(several)
    }

    private static let severalSQL = sql(rows: rowsAtOnce)

    /// Gives every column a value. An update on conflict costs a third more and five allocations.
    private static func sql(rows: Int) -> String {
        let values = (0..<Int32(rows)).map { row in
            let first = 2 + row * width
            return "(?\(first), ?1, \((first + 1..<first + width).map { "?\($0)" }.joined(separator: ", ")), 0)"
        }
        return """
            INSERT OR REPLACE INTO cursor
              (webhook, scope, version, sequence, attempt, ackVersion, ackSequence, givenUp, isRenewed)
            VALUES \(values.joined(separator: ", "))
            """
    }

    /// - Parameter head: the webhook's last attempt.
    mutating func write(
        _ id: WebhookID, _ scope: Scope, _ record: JournalEntry.LaneRecord, head: Int64
    ) throws {
        if scope != self.scope {
            try end()
            // SQLITE_TRANSIENT has SQLite copy the text, which Swift frees after the call.
            let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
            for statement in [one, several] {
                let result = sqlite3_bind_text(statement, 1, scope.description, -1, transient)
                guard result == SQLITE_OK else { throw failure(result) }
            }
            self.scope = scope
        }
        rows.append((id, record, head))
        if rows.count == Self.rowsAtOnce {
            try write(rows[...], by: several)
            rows.removeAll(keepingCapacity: true)
        }
    }

    /// Writes the rows that are left.
    mutating func end() throws {
        for index in rows.indices { try write(rows[index...index], by: one) }
        rows.removeAll(keepingCapacity: true)
    }

    private func write(_ rows: ArraySlice<Row>, by statement: SQLiteStatement) throws {
        let length = WebhookID.textLength
        let result = withUnsafeTemporaryAllocation(byteCount: rows.count * length, alignment: 1) { texts in
            for (index, (id, record, head)) in rows.enumerated() {
                let text = UnsafeMutableRawBufferPointer(rebasing: texts[index * length..<(index + 1) * length])
                id.write(to: text)
                let start = text.baseAddress?.assumingMemoryBound(to: CChar.self)
                let first = 2 + Int32(index) * Self.width
                // SQLite keeps the pointer without a copy: the memory outlives the step, and each run binds anew.
                sqlite3_bind_text(statement, first, start, Int32(length), nil)
                sqlite3_bind_int64(statement, first + 1, record.cursor.version.rawValue)
                sqlite3_bind_int64(statement, first + 2, Int64(record.cursor.sequence))
                sqlite3_bind_int64(statement, first + 3, head)
                sqlite3_bind_int64(statement, first + 4, record.acknowledged.version.rawValue)
                sqlite3_bind_int64(statement, first + 5, Int64(record.acknowledged.sequence))
                sqlite3_bind_int64(statement, first + 6, Int64(record.givenUp))
            }
            let result = sqlite3_step(statement)
            sqlite3_reset(statement)
            return result
        }
        guard result == SQLITE_DONE else { throw failure(result) }
    }

    private func failure(_ code: Int32) -> DatabaseError {
        DatabaseError(resultCode: ResultCode(rawValue: code), message: db.lastErrorMessage, sql: Self.sql(rows: 1))
    }
}
