import GRDB
import GRDBSQLite

/// Statement that each publish runs, by SQLite's own calls: GRDB's arguments cost more than most of the rows. It is
/// compiled once for each connection.
struct DirectStatement: ~Copyable {
    private let db: Database
    private let sql: String
    private let statement: SQLiteStatement
    private var column: Int32 = 0
    /// Texts one after the other, and the column and the end of each.
    private var bytes: [UInt8] = []
    private var texts: [(column: Int32, end: Int)] = []

    /// - Parameter capacity: bytes of all texts together.
    init(_ sql: String, capacity: Int = 256, _ db: Database) throws {
        (self.sql, self.db) = (sql, db)
        statement = try db.cachedStatement(sql: sql).sqliteStatement
        bytes.reserveCapacity(capacity)
        texts.reserveCapacity(10)
    }

    deinit {
        sqlite3_reset(statement)
        sqlite3_clear_bindings(statement)
    }

    /// Binds the next column; nil is NULL.
    mutating func bind(_ number: Int64?) {
        column += 1
        // An unbound column is NULL.
        if let number { sqlite3_bind_int64(statement, column, number) }
    }

    mutating func bind(_ text: String) { bind(text.utf8) }

    mutating func bind(_ utf8: some Collection<UInt8>) {
        column += 1
        bytes.append(contentsOf: utf8)
        texts.append((column, bytes.count))
    }

    mutating func bindNull() { column += 1 }

    /// Runs the statement; once.
    ///
    /// - Returns: whether it gave a row.
    func run() throws -> Bool {
        let result = bytes.withUnsafeBytes { bytes in
            var start = 0
            for (column, end) in texts {
                let text = bytes.baseAddress?.advanced(by: start).assumingMemoryBound(to: CChar.self)
                // SQLite must not read the bytes after this closure.
                sqlite3_bind_text(statement, column, text, Int32(end - start), nil)
                start = end
            }
            return sqlite3_step(statement)
        }
        if result == SQLITE_ROW || result == SQLITE_DONE { return result == SQLITE_ROW }
        throw DatabaseError(resultCode: ResultCode(rawValue: result), message: db.lastErrorMessage, sql: sql)
    }

    /// First column of the row.
    var number: Int64 { sqlite3_column_int64(statement, 0) }
}
