import Dispatch
import GRDB
import GRDBSQLite
import Synchronization

/// Connections to a store's database: one that writes, on a queue of its own, and some that read.
struct StoreConnection: Sendable {
    let pool: DatabasePool
    let writer: WriterQueue
    let logLength = LogLength()
    /// Queue below the writer's own.
    private let queue = DispatchQueue(label: "stalecast.store.writer")

    /// Opens a database of ours, and brings its tables up to date.
    init(_ directory: DataDirectory) throws {
        var configuration = Configuration()
        configuration.label = "stalecast.store"
        configuration.writeTargetQueue = queue
        configuration.busyMode = .timeout(5)
        configuration.maximumReaderCount = 4
        // A transaction that cannot even be rolled back makes the store fail; it must not trap.
        configuration.allowsUnsafeTransactions = true
        // The pool keeps this closure, and with it what the connections write to.
        configuration.prepareDatabase { [logLength] in logLength.watch($0) }
        pool = try DatabasePool(path: directory.database, configuration: configuration)
        writer = WriterQueue(pool, above: queue)
        try Self.makeDurable(pool)
        try Schema.migrator.migrate(pool)
        try pool.write(AuditTable.create)
        // A disk without room keeps it until another start.
        do { try pool.write(Schema.dropTimeIndex) } catch let error as DatabaseError where error.isNoSpace {}
        pool.writeWithoutTransaction(WriteAheadBuffer.install)
    }

    /// Does work on the writer after everything that waits for its queue now. GRDB's own queue is worked off until it is
    /// empty before the queue below it goes on. Work that put itself there again would keep a checkpoint waiting for as
    /// long as publishes overlap, or follow each other quickly.
    func inTurn(_ work: @escaping @Sendable (Database) -> Void) {
        queue.async { [pool] in pool.asyncWriteWithoutTransaction(work) }
    }

    /// DatabasePool itself sets `synchronous = NORMAL`, after everything `Configuration.prepareDatabase` could do, and
    /// with it a power cut would take acknowledged versions.
    private static func makeDurable(_ pool: DatabasePool) throws {
        try pool.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;
                    """)
            guard try Int.fetchOne(db, sql: "PRAGMA synchronous") == 2 else {
                throw StoreError.inaccessible("SQLite does not accept synchronous=FULL")
            }
        }
    }
}

/// Length of the write-ahead log, as SQLite tells it after each commit. The file's size is no measure: a checkpoint does
/// not change it, and commits overwrite what is there.
final class LogLength: Sendable {
    private let pages = Atomic<Int64>(0)
    /// A page of SQLite's default size, with its header in the log.
    private static let pageBytes: Int64 = 4096 + 24

    /// 0 before the first commit.
    var bytes: Int64 { pages.load(ordering: .relaxed) * Self.pageBytes }

    /// The next commit overwrites the log from its beginning.
    func restart() { pages.store(0, ordering: .relaxed) }

    /// Takes the place of SQLite's automatic checkpoints, which swallow their errors. The connection must not outlive
    /// this object.
    func watch(_ db: Database) {
        _ = sqlite3_wal_hook(
            db.sqliteConnection,
            { context, _, _, pages in
                guard let context else { return SQLITE_OK }
                let length = Unmanaged<LogLength>.fromOpaque(context).takeUnretainedValue()
                length.pages.store(Int64(pages), ordering: .relaxed)
                return SQLITE_OK
            }, Unmanaged.passUnretained(self).toOpaque())
    }
}
