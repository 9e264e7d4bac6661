import Foundation
import GRDB
import StalecastOutbound
import StalecastWire
import Synchronization

/// `deliveries.sqlite`: cursors, attempts, dead letters. A lost write only repeats a delivery, so commits do not wait
/// for the disk (`synchronous=NORMAL`).
final class DeliveryDatabase: Sendable {
    let queue: DatabaseQueue
    /// Where attempts are written next.
    private let log = Mutex(AttemptLog())

    /// As many attempts are kept at most.
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
            try $0.execute(sql: "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 4000")
        }
        queue = try DatabaseQueue(path: path, configuration: configuration)
        chmod(path, 0o600)
        try Self.migrator.migrate(queue)
        try queue.write { try Self.enter(epoch, $0) }
        let known = try queue.read(AttemptLog.init)
        log.withLock { $0 = known }
    }

    private static func enter(_ epoch: Epoch, _ db: Database) throws {
        let known = try String.fetchOne(db, sql: "SELECT epoch FROM history")
        guard known != epoch.description else { return }
        if known != nil {
            try db.execute(
                sql: """
                    INSERT INTO head SELECT webhook, max(attempt) FROM cursor WHERE attempt > 0 GROUP BY webhook
                      ON CONFLICT DO UPDATE SET attempt = max(attempt, excluded.attempt);
                    DELETE FROM cursor; DELETE FROM beyond; DELETE FROM extra
                    """)
        }
        try db.execute(
            sql: "INSERT OR REPLACE INTO history (id, epoch) VALUES (1, ?)", arguments: [epoch.description])
    }

    private static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { db in
            try db.execute(
                sql: """
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
                    """)
        }
        migrator.registerMigration("2") { db in
            // `endedAt`: of the last attempt; `total`: attempts so far; `attempt`: a webhook's last one, of which there may
            // be a newer one in the other table.
            try db.execute(
                sql: """
                    DROP TABLE attempt;
                    CREATE TABLE chunk (
                      id INTEGER PRIMARY KEY, endedAt INTEGER NOT NULL, total INTEGER NOT NULL, attempts BLOB NOT NULL) STRICT;
                    ALTER TABLE cursor ADD COLUMN attempt INTEGER NOT NULL DEFAULT 0;
                    CREATE TABLE head (webhook TEXT PRIMARY KEY, attempt INTEGER NOT NULL) STRICT, WITHOUT ROWID;
                    """)
        }
        return migrator
    }

    // MARK: Reading

    /// What a run starts from.
    struct Image {
        struct Key: Hashable {
            let webhook: String
            let scope: String
        }

        var cursors: [Key: (version: VersionNumber, sequence: CommitSequence)] = [:]
        var beyond: [Key: Set<CommitSequence>] = [:]
        var extra: [Key: [CommitSequence]] = [:]
        var health: [String: TargetHealth] = [:]
    }

    func load() throws -> Image {
        try queue.read { db in
            var image = Image()
            for row in try Row.fetchAll(db, sql: "SELECT * FROM cursor") {
                image.cursors[Self.key(row)] = (VersionNumber(clamping: row["version"] as Int64), row["sequence"])
            }
            for row in try Row.fetchAll(db, sql: "SELECT * FROM beyond") {
                image.beyond[Self.key(row), default: []].insert(row["sequence"])
            }
            for row in try Row.fetchAll(db, sql: "SELECT * FROM extra ORDER BY sequence") {
                image.extra[Self.key(row), default: []].append(row["sequence"])
            }
            for row in try Row.fetchAll(db, sql: "SELECT * FROM health") {
                image.health[row["webhook"]] = TargetHealth(
                    failures: row["failures"], failedAttempts: row["failedAttempts"],
                    failingSince: Self.time(row["failingSince"]), disabledReason: row["disabledReason"],
                    disabledSince: Self.time(row["disabledSince"]))
            }
            return image
        }
    }

    private static func key(_ row: Row) -> Image.Key { Image.Key(webhook: row["webhook"], scope: row["scope"]) }

    static func time(_ microseconds: Int64?) -> Timestamp? { microseconds.map(Timestamp.init(microseconds:)) }

    // MARK: Writing

    /// The webhook's last attempt; 0 without one.
    func head(of id: WebhookID) -> Int64 { log.withLock { $0.heads[id] ?? 0 } }

    /// Writes all of `entries`, or throws and writes none. One thread at a time.
    func write(_ entries: [JournalEntry]) throws {
        let addition = try queue.write { db in
            // Nobody holds on to it when it is added to below: it would be copied, and has an element for each webhook.
            var writer = JournalWriter(db, log.withLock { $0 })
            for entry in entries { try writer.take(entry) }
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
