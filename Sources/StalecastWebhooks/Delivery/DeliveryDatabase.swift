import Foundation
import GRDB
import StalecastOutbound
import StalecastWire

/// `deliveries.sqlite`: cursors, attempts, dead letters. A lost write only repeats a delivery, so commits do not wait
/// for the disk (`synchronous=NORMAL`).
final class DeliveryDatabase: Sendable {
    let queue: DatabaseQueue

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
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA synchronous = NORMAL") }
        queue = try DatabaseQueue(path: path, configuration: configuration)
        chmod(path, 0o600)
        try Self.migrator.migrate(queue)
        try queue.write { try Self.enter(epoch, $0) }
    }

    private static func enter(_ epoch: Epoch, _ db: Database) throws {
        let known = try String.fetchOne(db, sql: "SELECT epoch FROM history")
        guard known != epoch.description else { return }
        if known != nil { try db.execute(sql: "DELETE FROM cursor; DELETE FROM beyond; DELETE FROM extra") }
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
                image.cursors[Self.key(row)] = (row["version"], row["sequence"])
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

    /// Writes all of `entries`, or throws and writes none.
    func write(_ entries: [JournalEntry]) throws {
        try queue.write { db in
            for entry in entries { try Self.write(entry, db) }
        }
    }

    private static func write(_ entry: JournalEntry, _ db: Database) throws {
        switch entry {
        case .acknowledged(let id, let scope, let version, let sequence):
            try run(
                """
                INSERT INTO cursor (webhook, scope, version, sequence) VALUES (?, ?, ?, ?)
                ON CONFLICT DO UPDATE SET version = excluded.version, sequence = excluded.sequence
                """, [id.description, scope.description, version, Int64(sequence)], db)
        case .beyond(let id, let scope, let sequence):
            try run(
                "INSERT OR IGNORE INTO beyond VALUES (?, ?, ?)",
                [id.description, scope.description, Int64(sequence)], db)
        case .health(let id, let health): try write(id, health, db)
        case .attempt(let attempt): try write(attempt, db)
        case .dead(let id, let letter):
            try run(
                """
                INSERT INTO dead (webhook, scope, version, sequence, reason, attempts, lastStatus, movedAt)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                """,
                [
                    id.description, letter.scope.description, letter.version, Int64(letter.sequence), letter.reason,
                    letter.attempts, letter.lastStatus, letter.movedAt.microseconds,
                ], db)
        case .extra(let id, let scope, let sequence, let isOwed):
            let arguments: StatementArguments = [id.description, scope.description, Int64(sequence)]
            try run(
                isOwed
                    ? "INSERT OR IGNORE INTO extra VALUES (?, ?, ?)"
                    : "DELETE FROM extra WHERE webhook = ? AND scope = ? AND sequence = ?", arguments, db)
        case .removed(let id):
            for table in ["cursor", "beyond", "extra", "health", "attempt", "dead"] {
                try run("DELETE FROM \(table) WHERE webhook = ?", [id.description], db)
            }
        }
    }

    private static func write(_ id: WebhookID, _ health: TargetHealth, _ db: Database) throws {
        try run(
            "INSERT OR REPLACE INTO health VALUES (?, ?, ?, ?, ?, ?)",
            [
                id.description, health.failures, health.failedAttempts, health.failingSince?.microseconds,
                health.disabledReason, health.disabledSince?.microseconds,
            ], db)
    }

    private static func write(_ attempt: DeliveryAttempt, _ db: Database) throws {
        try run(
            "INSERT INTO attempt (webhook, startedAt, record) VALUES (?, ?, ?)",
            [attempt.webhook.description, attempt.startedAt.microseconds, Data(AttemptRecord.bytes(of: attempt))], db)
    }

    private static func run(_ sql: String, _ arguments: StatementArguments, _ db: Database) throws {
        try db.cachedStatement(sql: sql).execute(arguments: arguments)
    }

    /// Removes what is older than is kept, a few hundred rows; true when there may be more. Out-of-order
    /// acknowledgements that the cursor has passed go as well.
    func prune(attemptsBefore: Timestamp, deadBefore: Timestamp) throws -> Bool {
        try queue.write { db in
            let limit = 500
            // Ids grow with time, so the first rows are the oldest ones.
            try db.execute(
                sql: """
                    DELETE FROM attempt WHERE id IN (SELECT id FROM attempt ORDER BY id LIMIT \(limit))
                      AND (startedAt < ? OR id <= (SELECT max(id) FROM attempt) - \(Self.maxAttempts))
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
