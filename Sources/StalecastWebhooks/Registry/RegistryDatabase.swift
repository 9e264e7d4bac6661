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
    /// - Throws: ``VaultProblem``, or `DatabaseError`.
    static func open(at path: String, keyFile: String) throws -> RegistryDatabase {
        var configuration = Configuration()
        configuration.label = "stalecast.webhooks"
        configuration.journalMode = .wal
        configuration.busyMode = .timeout(5)
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON")
        }
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        chmod(path, 0o600)
        try migrator.migrate(queue)
        let seal = try queue.read { try Data.fetchOne($0, sql: "SELECT seal FROM vault") }
        let key = try VaultKey.load(from: keyFile, mayCreate: seal == nil)
        let database = RegistryDatabase(queue: queue, vault: SecretVault(key: key))
        try database.check(seal, keyFile: keyFile)
        return database
    }

    private static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { db in
            try db.execute(
                sql: """
                    CREATE TABLE vault (id INTEGER PRIMARY KEY CHECK (id = 1), seal BLOB NOT NULL) STRICT;
                    CREATE TABLE webhook (id TEXT PRIMARY KEY, sealed BLOB NOT NULL) STRICT, WITHOUT ROWID;
                    PRAGMA application_id = \(applicationID);
                    """)
        }
        return migrator
    }

    /// The first key seals a known text; another key does not open it.
    private func check(_ seal: Data?, keyFile: String) throws {
        guard let seal else {
            let seal = try vault.seal(Self.sealText, for: Self.sealPlace)
            return try queue.write {
                try $0.execute(sql: "INSERT INTO vault (id, seal) VALUES (1, ?)", arguments: [seal])
            }
        }
        guard (try? vault.open(seal, for: Self.sealPlace)) == Self.sealText else {  // whatever fails, the key is wrong
            throw VaultProblem.wrongKey(keyFile)
        }
    }

    /// Every row, opened.
    func load() throws -> [RegistryEntry] {
        try queue.read { db in
            var entries: [RegistryEntry] = []
            let rows = try Row.fetchCursor(db, sql: "SELECT id, sealed FROM webhook ORDER BY id")
            while let row = try rows.next() {
                let plain = try vault.open(row["sealed"], for: Self.place(row["id"]))
                entries.append(try RegistryEntry(record: JSONValue.parse(plain)))
            }
            return entries
        }
    }

    func store(_ entry: RegistryEntry, _ db: Database) throws {
        let id = entry.webhook.id.description
        let sealed = try vault.seal(entry.record.encoded(), for: Self.place(id))
        try db.execute(
            sql: """
                INSERT INTO webhook (id, sealed) VALUES (?, ?)
                ON CONFLICT (id) DO UPDATE SET sealed = excluded.sealed
                """, arguments: [id, sealed])
    }

    func remove(_ id: WebhookID, _ db: Database) throws {
        try db.execute(sql: "DELETE FROM webhook WHERE id = ?", arguments: [id.description])
    }

    private static func place(_ id: String) -> String { "webhook/\(id)" }
}
