import Foundation
import GRDB
import StalecastWire

/// `webhooks.sqlite`: one sealed row per webhook, every write durable (`synchronous=FULL`) before it counts.
final class RegistryDatabase: Sendable {
    let queue: DatabaseQueue
    private let vault: SecretVault

    /// SQLite's `application_id`, `STLW`.
    private static let applicationID: Int32 = 0x5354_4C57
    private static let sealPlace = "stalecast webhooks"
    private static let sealText = Array("stalecast webhooks".utf8)

    private init(queue: DatabaseQueue, vault: SecretVault) {
        self.queue = queue
        self.vault = vault
    }

    /// Opens or makes the database and its key; blocks.
    ///
    /// - Parameter keyFile: where the key is, or is made when there is nothing to open with it yet.
    /// - Throws: ``VaultKey.Problem``, or `DatabaseError`.
    static func open(at path: String, keyFile: String) throws -> RegistryDatabase {
        let queue = try queue(at: path)
        // Without a webhook no secret is lost with the key: a backup that was restored elsewhere begins with a new one.
        let seal = try queue.read {
            try Data.fetchOne($0, sql: "SELECT seal FROM vault WHERE EXISTS (SELECT 1 FROM webhook)")
        }
        let key = try VaultKey.load(from: keyFile, mayCreate: seal == nil)
        let database = RegistryDatabase(queue: queue, vault: SecretVault(key: key))
        try database.check(seal, keyFile: keyFile)
        return database
    }

    /// No row is a shared record any more; blocks.
    static func unshare(at path: String) throws {
        let queue = try queue(at: path)
        try queue.write { try $0.execute(sql: "UPDATE webhook SET revision = 0") }
        try queue.close()
    }

    private static func queue(at path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.label = "stalecast.webhooks"
        configuration.journalMode = .wal
        configuration.busyMode = .timeout(5)
        configuration.prepareDatabase { db in
            // The second and third matter on macOS only, where fsync leaves the data in the drive's cache.
            try db.execute(sql: "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON")
        }
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        chmod(path, 0o600)
        try migrator.migrateOlder(queue, at: path)
        return queue
    }

    private static var migrator: DatabaseMigrator {
        DatabaseMigrator(
            """
            CREATE TABLE vault (id INTEGER PRIMARY KEY CHECK (id = 1), seal BLOB NOT NULL) STRICT;
            CREATE TABLE webhook (id TEXT PRIMARY KEY, sealed BLOB NOT NULL) STRICT, WITHOUT ROWID;
            PRAGMA application_id = \(applicationID);
            """,
            // Revision of the record that all nodes of a cluster share; 0: it was never shared.
            "ALTER TABLE webhook ADD COLUMN revision INTEGER NOT NULL DEFAULT 0")
    }

    /// The first key seals a known text; another key does not open it.
    private func check(_ seal: Data?, keyFile: String) throws {
        guard let seal else {
            let seal = try vault.seal(Self.sealText, for: Self.sealPlace)
            return try queue.write {
                try $0.execute(sql: "INSERT OR REPLACE INTO vault (id, seal) VALUES (1, ?)", arguments: [seal])
            }
        }
        guard (try? vault.open(seal, for: Self.sealPlace)) == Self.sealText else {  // whatever fails, the key is wrong
            throw VaultKey.Problem(
                keyFile, "is not the key webhooks.sqlite was sealed with; put the right one there")
        }
    }

    /// Every row, opened, with its revision.
    func load() throws -> [(entry: RegistryEntry, revision: Int64)] {
        try queue.read { db in
            var entries: [(RegistryEntry, Int64)] = []
            let rows = try Row.fetchCursor(db, sql: "SELECT id, sealed, revision FROM webhook ORDER BY id")
            while let row = try rows.next() {
                entries.append((try open(row["sealed"], of: row["id"]), row["revision"]))
            }
            return entries
        }
    }

    /// - Parameter revision: of the shared record that it is; nil leaves it.
    func store(_ entry: RegistryEntry, revision: Int64?, _ db: Database) throws {
        let id = entry.webhook.id.description
        try db.execute(
            sql: """
                INSERT INTO webhook (id, sealed, revision) VALUES (?1, ?2, ifnull(?3, 0))
                ON CONFLICT (id) DO UPDATE SET sealed = excluded.sealed, revision = ifnull(?3, revision)
                """, arguments: [id, try seal(entry), revision])
    }

    /// Seals an entry in the form that rows and shared records hold.
    func seal(_ entry: RegistryEntry) throws -> Data {
        try vault.seal(entry.record.encoded(), for: Self.place(entry.webhook.id.description))
    }

    func open(_ sealed: Data, of id: String) throws -> RegistryEntry {
        try RegistryEntry(record: JSONValue.parse(vault.open(sealed, for: Self.place(id))))
    }

    func remove(_ id: WebhookID, _ db: Database) throws {
        try db.execute(sql: "DELETE FROM webhook WHERE id = ?", arguments: [id.description])
    }

    private static func place(_ id: String) -> String { "webhook/\(id)" }
}
