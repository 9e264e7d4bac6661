import GRDB
import GRDBSQLite

/// Collects what a connection writes into its write-ahead log until it is synchronised.
///
/// SQLite writes a head of 24 bytes and a page of 4096 for each page that a commit changed, with a call of its own: 14
/// calls for a publish, most of which begin in the middle of a page of the kernel's. This makes one of them.
///
/// Requires `synchronous=FULL`. A commit then synchronises the log before other connections learn of it, and those never
/// read bytes that are still here. The connection itself may, in a transaction that is larger than its cache: a read
/// writes them first. Bytes of a transaction that was not synchronised are not committed, so closing drops them.
struct WriteAheadBuffer {
    /// The file's methods with those below in place. SQLite's file points to this member, which is the first, so each
    /// method finds its buffer by its file.
    private var methods: sqlite3_io_methods
    private let original: UnsafePointer<sqlite3_io_methods>
    private let bytes: UnsafeMutableRawPointer
    private var count = 0
    /// Place of the first byte in the file.
    private var offset: sqlite3_int64 = 0

    /// Bytes that are written at once: 15 pages. SQLite's own write must not get more than 131,071: it takes the lowest 17
    /// bits of a count.
    private static let capacity = 64 << 10

    /// Installs a buffer, which goes when the connection is closed. Does nothing where there is no log.
    static func install(_ db: Database) {
        var file: UnsafeMutablePointer<sqlite3_file>?
        let code = sqlite3_file_control(db.sqliteConnection, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file)
        guard code == SQLITE_OK, let file, let original = file.pointee.pMethods else { return }
        let buffer = UnsafeMutablePointer<Self>.allocate(capacity: 1)
        buffer.initialize(to: Self(over: original))
        file.pointee.pMethods = UnsafeRawPointer(buffer).assumingMemoryBound(to: sqlite3_io_methods.self)
    }

    private init(over original: UnsafePointer<sqlite3_io_methods>) {
        methods = original.pointee
        self.original = original
        bytes = .allocate(byteCount: Self.capacity, alignment: 16)
        methods.xWrite = { file, bytes, count, offset in
            guard let bytes else { return SQLITE_MISUSE }
            return WriteAheadBuffer.of(file).pointee.write(bytes, Int(count), at: offset, file)
        }
        methods.xRead = { file, bytes, count, offset in
            WriteAheadBuffer.flushed(file) { $0.xRead(file, bytes, count, offset) }
        }
        methods.xSync = { file, flags in WriteAheadBuffer.flushed(file) { $0.xSync(file, flags) } }
        methods.xTruncate = { file, size in WriteAheadBuffer.flushed(file) { $0.xTruncate(file, size) } }
        methods.xFileSize = { file, size in WriteAheadBuffer.flushed(file) { $0.xFileSize(file, size) } }
        methods.xClose = { file in
            let buffer = WriteAheadBuffer.of(file)
            let original = buffer.pointee.original
            buffer.pointee.bytes.deallocate()
            buffer.deallocate()
            // SQLite's file must not point into the freed buffer while the system's method closes it.
            file?.pointee.pMethods = original
            return original.pointee.xClose(file)
        }
    }

    private static func of(_ file: UnsafeMutablePointer<sqlite3_file>?) -> UnsafeMutablePointer<Self> {
        guard let methods = file?.pointee.pMethods else { preconditionFailure("SQLite's file is open") }
        return UnsafeMutableRawPointer(mutating: methods).assumingMemoryBound(to: Self.self)
    }

    /// Does what the system's method does, after what was collected is with the kernel.
    private static func flushed(
        _ file: UnsafeMutablePointer<sqlite3_file>?, _ act: (sqlite3_io_methods) -> Int32
    ) -> Int32 {
        let buffer = of(file)
        let code = buffer.pointee.flush(file)
        return code == SQLITE_OK ? act(buffer.pointee.original.pointee) : code
    }

    private mutating func write(
        _ new: UnsafeRawPointer, _ size: Int, at place: sqlite3_int64, _ file: UnsafeMutablePointer<sqlite3_file>?
    ) -> Int32 {
        // Only bytes that follow the collected ones are added to them.
        if place != offset + sqlite3_int64(count) || count + size > Self.capacity {
            let code = flush(file)
            if code != SQLITE_OK { return code }
            offset = place
        }
        // Too large to collect; everything before it has been written above.
        guard size <= Self.capacity else { return original.pointee.xWrite(file, new, Int32(size), place) }
        (bytes + count).copyMemory(from: new, byteCount: size)
        count += size
        return SQLITE_OK
    }

    /// Writes all that waits. After a failure SQLite writes the transaction again from its beginning, or not at all.
    private mutating func flush(_ file: UnsafeMutablePointer<sqlite3_file>?) -> Int32 {
        guard count > 0 else { return SQLITE_OK }
        defer { (offset, count) = (offset + sqlite3_int64(count), 0) }
        return original.pointee.xWrite(file, bytes, Int32(count), offset)
    }
}
