import Foundation
import GRDB
import StalecastOutbound
import StalecastWire
import Synchronization

/// `deliveries.sqlite`: cursors, attempts, dead letters. A lost write only repeats a delivery, so commits do not wait
/// for the disk (`synchronous=NORMAL`).
final class DeliveryDatabase: Sendable {
    let queue: DatabaseQueue
    /// Position for the next attempt that is written.
    private let log = Mutex(AttemptLog())

    static let maxDeadLetters = 1000
    private static let maxAttempts = 1_000_000
    /// SQLite's `application_id`, `STLD`.
    private static let applicationID: Int32 = 0x5354_4C44

    /// Opens or makes the database; blocks.
    ///
    /// - Parameter epoch: the store's. Cursors into another history are forgotten.
    init(path: String, epoch: Epoch) throws {
        var configuration = Configuration()
        configuration.label = "stalecast.deliveries"
        configuration.journalMode = .wal
        configuration.busyMode = .timeout(1)
        configuration.prepareDatabase {
            // NORMAL in WAL mode may lose the last transactions at a power cut: their messages are repeated.
            try $0.execute(sql: "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 4000")
        }
        queue = try DatabaseQueue(path: path, configuration: configuration)
        chmod(path, 0o600)
        try Self.migrator.migrateOlder(queue, at: path)
        try queue.write { try Self.enter(epoch, $0) }
        let known = try queue.read(AttemptLog.init)
        log.withLock { $0 = known }
    }

    private static func enter(_ epoch: Epoch, _ db: Database) throws {
        let known = try String.fetchOne(db, sql: "SELECT epoch FROM history")
        guard known != epoch.description else { return }
        if known != nil {
            // The column `attempt` stays: attempts are listed whatever history their versions are of.
            try db.execute(
                sql: """
                    UPDATE cursor SET version = 0, sequence = 0, ackVersion = 0, ackSequence = 0, givenUp = 0, isRenewed = 1;
                    DELETE FROM beyond; DELETE FROM extra
                    """)
        }
        try db.execute(
            sql: "INSERT OR REPLACE INTO history (id, epoch) VALUES (1, ?)", arguments: [epoch.description])
    }

    private static var migrator: DatabaseMigrator {
        DatabaseMigrator(
            """
            CREATE TABLE history (id INTEGER PRIMARY KEY CHECK (id = 1), epoch TEXT NOT NULL) STRICT;
            CREATE TABLE cursor (
              webhook TEXT NOT NULL, scope TEXT NOT NULL, version INTEGER NOT NULL, sequence INTEGER NOT NULL,
              PRIMARY KEY (webhook, scope)) STRICT, WITHOUT ROWID;
            CREATE TABLE beyond (
              webhook TEXT NOT NULL, scope TEXT NOT NULL, sequence INTEGER NOT NULL,
              PRIMARY KEY (webhook, scope, sequence)) STRICT, WITHOUT ROWID;
            CREATE TABLE extra (
              webhook TEXT NOT NULL, scope TEXT NOT NULL, sequence INTEGER NOT NULL,
              PRIMARY KEY (webhook, scope, sequence)) STRICT, WITHOUT ROWID;
            CREATE TABLE health (
              webhook TEXT PRIMARY KEY, failures INTEGER NOT NULL, failedAttempts INTEGER NOT NULL,
              failingSince INTEGER, disabledReason TEXT, disabledSince INTEGER) STRICT, WITHOUT ROWID;
            CREATE TABLE attempt (
              id INTEGER PRIMARY KEY, webhook TEXT NOT NULL, startedAt INTEGER NOT NULL,
              record BLOB NOT NULL) STRICT;
            CREATE INDEX attemptOfWebhook ON attempt (webhook, id);
            CREATE TABLE dead (
              id INTEGER PRIMARY KEY, webhook TEXT NOT NULL, scope TEXT NOT NULL, version INTEGER NOT NULL,
              sequence INTEGER NOT NULL, reason TEXT NOT NULL, attempts INTEGER NOT NULL, lastStatus INTEGER,
              movedAt INTEGER NOT NULL) STRICT;
            CREATE INDEX deadOfWebhook ON dead (webhook, id);
            PRAGMA application_id = \(applicationID);
            """,
            // `endedAt`: of the last attempt; `total`: attempts so far; `attempt`: a webhook's last one, of which there may
            // be a newer one in the other table.
            """
            DROP TABLE attempt;
            CREATE TABLE chunk (
              id INTEGER PRIMARY KEY, endedAt INTEGER NOT NULL, total INTEGER NOT NULL, attempts BLOB NOT NULL) STRICT;
            ALTER TABLE cursor ADD COLUMN attempt INTEGER NOT NULL DEFAULT 0;
            CREATE TABLE head (webhook TEXT PRIMARY KEY, attempt INTEGER NOT NULL) STRICT, WITHOUT ROWID;
            """,
            // `isRenewed`: of another history, and owed the newest version once; `failingTime` in microseconds; `epoch`: of
            // the history that `sequence` is in.
            """
            ALTER TABLE cursor ADD COLUMN ackVersion INTEGER NOT NULL DEFAULT 0;
            ALTER TABLE cursor ADD COLUMN ackSequence INTEGER NOT NULL DEFAULT 0;
            ALTER TABLE cursor ADD COLUMN givenUp INTEGER NOT NULL DEFAULT 0;
            ALTER TABLE cursor ADD COLUMN isRenewed INTEGER NOT NULL DEFAULT 0;
            ALTER TABLE beyond ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
            UPDATE cursor SET ackVersion = version, ackSequence = sequence;
            ALTER TABLE health ADD COLUMN failingTime INTEGER NOT NULL DEFAULT 0;
            ALTER TABLE health ADD COLUMN receiver TEXT;
            ALTER TABLE dead ADD COLUMN epoch TEXT;
            UPDATE dead SET epoch = (SELECT epoch FROM history);
            """)
    }

    // MARK: Reading

    func load() throws -> DeliveryImage {
        try queue.read { db in
            var image = DeliveryImage()
            for table in ["cursor", "extra", "health", "head", "dead"] {
                let names = try String.fetchAll(db, sql: "SELECT DISTINCT webhook FROM \(table)")
                image.ids.formUnion(names.compactMap { WebhookID($0) })
            }
            try Self.each("SELECT * FROM cursor", db) { id, scope, row in
                var record = JournalEntry.LaneRecord()
                record.cursor = ScopeLog.Place(
                    version: Self.version(row["version"]), sequence: try Self.sequence(row, "sequence"))
                record.acknowledged = ScopeLog.Place(
                    version: Self.version(row["ackVersion"]), sequence: try Self.sequence(row, "ackSequence"))
                record.givenUp = try Self.sequence(row, "givenUp")
                image.lanes[id, default: [:]][scope] = DeliveryImage.StoredLane(record, isRenewed: row["isRenewed"])
            }
            // What stands here without a cursor is left from one that was lost.
            try Self.each("SELECT * FROM beyond", db) {
                image.lanes[$0]?[$1]?.beyond[try Self.sequence($2, "sequence")] = Self.version($2["version"])
            }
            try Self.each("SELECT * FROM extra", db) {
                image.lanes[$0]?[$1]?.extras.insert(try Self.sequence($2, "sequence"))
            }
            for row in try Row.fetchAll(db, sql: "SELECT * FROM health") {
                guard let id = WebhookID(row["webhook"] as String) else { continue }
                var health = JournalEntry.TargetHealth()
                health.failures = row["failures"]
                health.failedAttempts = row["failedAttempts"]
                health.failingSince = Self.time(row["failingSince"])
                health.failingTime = row["failingTime"]
                health.disabledReason = row["disabledReason"]
                health.disabledSince = Self.time(row["disabledSince"])
                health.receiver = row["receiver"]
                image.health[id] = health
            }
            return image
        }
    }

    /// Calls `body` with each row that is about a webhook and scope.
    private static func each(_ sql: String, _ db: Database, _ body: (WebhookID, Scope, Row) throws -> Void) throws {
        let rows = try Row.fetchCursor(db, sql: sql)
        while let row = try rows.next() {
            guard let id = WebhookID(row["webhook"] as String), let scope = Scope(stored: row["scope"]) else {
                continue
            }
            try body(id, scope, row)
        }
    }

    /// - Throws: for a number that no store gives, which only a damaged file has.
    static func sequence(_ row: Row, _ column: String) throws -> CommitSequence {
        let number: Int64 = row[column]
        guard let sequence = CommitSequence(exactly: number) else {
            throw DatabaseError(
                resultCode: .SQLITE_CORRUPT, message: "\(column) is \(number), and a sequence is never negative")
        }
        return sequence
    }

    private static func version(_ number: Int64) -> VersionNumber { VersionNumber(clamping: number) }

    static func time(_ microseconds: Int64?) -> Timestamp? { microseconds.map(Timestamp.init(microseconds:)) }

    // MARK: Writing

    /// The webhook's last attempt; 0 without one.
    func head(of id: WebhookID) -> Int64 { log.withLock { $0.heads[id] ?? 0 } }

    /// Writes all of the batch, or throws and writes none. One thread at a time.
    func write(_ batch: JournalBatch) throws {
        let addition = try queue.write { db in
            // No other reference is held when it is added to below: it would be copied, and has an element for each webhook.
            var writer = JournalWriter(db, log.withLock { $0 })
            try writer.take(batch)
            return try writer.end()
        }
        log.withLock { $0.take(addition) }
    }

    /// Removes what is older than is kept, a few hundred rows; true when there may be more. Out-of-order
    /// acknowledgements that the cursor has passed go as well.
    func prune(attemptsBefore: Timestamp, deadBefore: Timestamp) throws -> Bool {
        try queue.write { db in
            let limit = 500
            // Ids grow with time, so the first rows are the oldest ones.
            try db.execute(
                sql: """
                    DELETE FROM chunk WHERE id IN (SELECT id FROM chunk ORDER BY id LIMIT \(limit))
                      AND (endedAt < ? OR total <= (SELECT total FROM chunk ORDER BY id DESC LIMIT 1) - \(Self.maxAttempts))
                    """,
                arguments: [attemptsBefore.microseconds])
            var removed = db.changesCount
            try db.execute(
                sql: "DELETE FROM dead WHERE id IN (SELECT id FROM dead WHERE movedAt < ? LIMIT \(limit))",
                arguments: [deadBefore.microseconds])
            removed = max(removed, db.changesCount)
            try db.execute(
                sql: """
                    DELETE FROM beyond WHERE sequence <= (SELECT cursor.sequence FROM cursor
                      WHERE cursor.webhook = beyond.webhook AND cursor.scope = beyond.scope)
                    """)
            return removed == limit
        }
    }
}
