import GRDB
import GRDBSQLite
import Glibc
import StalecastWire

/// Copies files into the table `attachment` and out of it, in pieces: a history of deliveries can be larger than the
/// memory of a container.
enum BackupParts {
    private static let pieceSize = 1 << 20

    /// Adds the file at `path` as the row `name`.
    static func add(_ path: String, as name: String, _ db: Database) throws {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { throw FileOperation.Failure("open", path) }
        defer { close(file) }
        let size = FileOperation.size(path) ?? 0
        // Takes its pages now, and no memory.
        try db.execute(sql: "INSERT INTO attachment VALUES (?, zeroblob(?))", arguments: [name, size])
        try withBlob(db.lastInsertedRowID, isWritable: true, db) { blob, count in
            try inPieces(of: count) { piece, offset in
                guard read(file, piece.baseAddress, piece.count) == piece.count else {
                    throw FileOperation.Failure("read", path)
                }
                return sqlite3_blob_write(blob, piece.baseAddress, Int32(piece.count), offset)
            }
        }
    }

    /// Writes the row to a new file of mode 0600 at `path`; leaves nothing there when it fails.
    static func write(_ row: Int64, to path: String, _ db: Database) throws {
        // O_EXCL follows no link (open(2)) and takes no file of another account: webhooks' secrets can be in it.
        let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw FileOperation.Failure("create", path) }
        defer { close(file) }
        do {
            try withBlob(row, isWritable: false, db) { blob, count in
                try inPieces(of: count) { piece, offset in
                    let result = sqlite3_blob_read(blob, piece.baseAddress, Int32(piece.count), offset)
                    guard result == SQLITE_OK else { return result }
                    guard DescriptorBytes.write(UnsafeRawBufferPointer(piece), to: file) == piece.count else {
                        throw FileOperation.Failure("write", path)
                    }
                    return result
                }
            }
        } catch {
            unlink(path)
            throw error
        }
    }

    /// - Parameter work: takes a place for bytes and their offset, and returns SQLite's result.
    private static func inPieces(
        of count: Int, _ work: (UnsafeMutableRawBufferPointer, Int32) throws -> Int32
    ) throws {
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: pieceSize, alignment: 16)
        defer { room.deallocate() }
        for offset in stride(from: 0, to: count, by: pieceSize) {
            let piece = UnsafeMutableRawBufferPointer(rebasing: room[..<min(pieceSize, count - offset)])
            try check(work(piece, Int32(offset)))
        }
    }

    private static func withBlob(
        _ row: Int64, isWritable: Bool, _ db: Database, _ work: (OpaquePointer?, Int) throws -> Void
    ) throws {
        var blob: OpaquePointer?
        try check(
            sqlite3_blob_open(db.sqliteConnection, "main", "attachment", "content", row, isWritable ? 1 : 0, &blob))
        defer { sqlite3_blob_close(blob) }
        try work(blob, Int(sqlite3_blob_bytes(blob)))
    }

    private static func check(_ result: Int32) throws {
        guard result == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: result)) }
    }
}
