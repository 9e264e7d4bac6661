import GRDB
import StalecastTestServers
import StalecastTestSupport
import StalecastWebhooks
import StalecastWire
import Synchronization
import Testing

/// A database of a former release is read as it was left.
@Suite struct DeliveryMigrationTests {
    /// Schema as release migrations 1 and 2 left it.
    private static let schema = """
        CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY);
        INSERT INTO grdb_migrations VALUES ('1'), ('2');
        CREATE TABLE history (id INTEGER PRIMARY KEY CHECK (id = 1), epoch TEXT NOT NULL) STRICT;
        CREATE TABLE cursor (
          webhook TEXT NOT NULL, scope TEXT NOT NULL, version INTEGER NOT NULL, sequence INTEGER NOT NULL,
          attempt INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (webhook, scope)) STRICT, WITHOUT ROWID;
        CREATE TABLE beyond (
          webhook TEXT NOT NULL, scope TEXT NOT NULL, sequence INTEGER NOT NULL,
          PRIMARY KEY (webhook, scope, sequence)) STRICT, WITHOUT ROWID;
        CREATE TABLE extra (
          webhook TEXT NOT NULL, scope TEXT NOT NULL, sequence INTEGER NOT NULL,
          PRIMARY KEY (webhook, scope, sequence)) STRICT, WITHOUT ROWID;
        CREATE TABLE health (
          webhook TEXT PRIMARY KEY, failures INTEGER NOT NULL, failedAttempts INTEGER NOT NULL,
          failingSince INTEGER, disabledReason TEXT, disabledSince INTEGER) STRICT, WITHOUT ROWID;
        CREATE TABLE dead (
          id INTEGER PRIMARY KEY, webhook TEXT NOT NULL, scope TEXT NOT NULL, version INTEGER NOT NULL,
          sequence INTEGER NOT NULL, reason TEXT NOT NULL, attempts INTEGER NOT NULL, lastStatus INTEGER,
          movedAt INTEGER NOT NULL) STRICT;
        CREATE INDEX deadOfWebhook ON dead (webhook, id);
        CREATE TABLE chunk (
          id INTEGER PRIMARY KEY, endedAt INTEGER NOT NULL, total INTEGER NOT NULL, attempts BLOB NOT NULL) STRICT;
        CREATE TABLE head (webhook TEXT PRIMARY KEY, attempt INTEGER NOT NULL) STRICT, WITHOUT ROWID;
        PRAGMA application_id = \(0x5354_4C44);
        """

    /// Seven versions are stored; each webhook has taken some of them.
    @Test func whatVersion2OwesComesOnceAndNothingElse() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            let stage = try DeliveryFixture()
            for _ in 0..<7 { stage.commit() }
            let latest = try stage.webhook("\(server.url)/latest")
            let fifo = try stage.webhook("\(server.url)/fifo", mode: .fifo(onExhaustion: .block))
            let all = try stage.webhook("\(server.url)/all", mode: .all)
            let off = try stage.webhook("\(server.url)/off")
            let done = try stage.webhook("\(server.url)/done")
            let webhooks = [latest, fifo, all, off, done]
            try await write(stage) { db, scope in
                for (webhook, taken) in zip(webhooks, [3, 5, 3, 5, 7]) {
                    try db.execute(
                        sql: "INSERT INTO cursor VALUES (?, ?, ?, ?, 0)",
                        arguments: [webhook.id.description, scope, taken, taken])
                }
                // 5 was taken out of order, 2 was asked for once more, 1 was refused.
                try db.execute(sql: "INSERT INTO beyond VALUES (?, ?, 5)", arguments: [all.id.description, scope])
                try db.execute(sql: "INSERT INTO extra VALUES (?, ?, 2)", arguments: [all.id.description, scope])
                try db.execute(
                    sql: "INSERT INTO dead VALUES (1, ?, ?, 1, 1, 'rejected', 4, 413, ?)",
                    arguments: [all.id.description, scope, Timestamp.now().microseconds])
                try db.execute(
                    sql: "INSERT INTO health VALUES (?, 7, 12, 1000000, 'failing', 2000000)",
                    arguments: [off.id.description])
            }
            try await stage.run(webhooks) { fixture in
                for webhook in [latest, fifo, all] { try await fixture.settled(webhook.id) }
                try await eventually { Set(server.versions(at: "/all")) == [2, 4, 6, 7] }
                let status = try #require(try await fixture.delivery.status(of: off.id))
                #expect(status.state == .disabled(reason: "failing", since: Timestamp(microseconds: 2_000_000)))
                #expect(status.failures == 7 && status.scopes.map(\.acknowledged) == [5])
                let letters = try fixture.deadLetters(all)
                #expect(letters.map(\.version) == [1] && letters.map(\.lastStatus) == [413])
            }
            try await stage.run(webhooks) { fixture in
                // Nothing again; the letter is of the same history, and its version comes on request.
                #expect(try await fixture.delivery.redrive(all.id, letter: nil) == 1)
                #expect(try await fixture.delivery.enable(off.id))
                try await fixture.settled(off.id)
                try await eventually { server.versions(at: "/all").last == 1 }
                #expect(try fixture.deadLetters(all).isEmpty)
            }
            // It knows what the receiver has.
            #expect(server.requests.filter { $0.target == "/latest" }.map(\.body) == ["7 3 3"])
            #expect(server.versions(at: "/fifo") == [6, 7])
            #expect(server.versions(at: "/all").sorted() == [1, 2, 4, 6, 7])
            #expect(server.versions(at: "/off") == [7])
            #expect(server.versions(at: "/done").isEmpty)
        }
    }

    @Test func aDatabaseOfANewerProgramIsRefusedInASentence() async throws {
        let stage = try DeliveryFixture()
        try await write(stage) { db, _ in
            try db.execute(sql: "INSERT INTO grdb_migrations VALUES ('99')")
            try db.execute(sql: "ALTER TABLE cursor RENAME COLUMN sequence TO position")
        }
        let error = #expect(throws: (any Error).self) { try stage.start([]) }
        #expect(String(describing: error).contains("was written by a newer stalecast; it was not changed"))
    }

    /// A flipped bit, which SQLite does not notice, must not trap.
    @Test(arguments: ["cursor", "beyond", "extra"]) func aNegativeSequenceIsRefused(table: String) async throws {
        let stage = try DeliveryFixture()
        let webhook = try stage.webhook("http://127.0.0.1:1/")
        try await write(stage) { db, scope in
            try db.execute(
                sql: "INSERT INTO cursor VALUES (?, ?, 1, ?, 0)",
                arguments: [webhook.id.description, scope, table == "cursor" ? -1 : 1])
            guard table != "cursor" else { return }
            try db.execute(
                sql: "INSERT INTO \(table) VALUES (?, ?, -1)", arguments: [webhook.id.description, scope])
        }
        #expect(throws: (any Error).self) { try stage.start([webhook]) }
        await stage.end()
    }

    @Test func ofAttemptsTheNewestMillionAreKept() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            let stage = try DeliveryFixture()
            let webhook = try stage.webhook(server.url)
            try await write(stage) { db, _ in
                for (id, total) in [(1, 16), (2, 32), (3, 1_000_020)] {
                    try db.execute(
                        sql: "INSERT INTO chunk VALUES (?, ?, ?, x'')", arguments: [id, Int64.max, total])
                }
            }
            // The first write looks for what is to be removed.
            try await stage.run([webhook]) { fixture in
                try fixture.publish(1)
                try await fixture.settled(webhook.id)
            }
            let queue = try DatabaseQueue(path: stage.databasePath)
            let totals = try await queue.read { try Int.fetchAll($0, sql: "SELECT total FROM chunk ORDER BY id") }
            try queue.close()
            #expect(totals == [32, 1_000_020, 1_000_021])
        }
    }

    /// - Parameter fill: is told the scope as rows name it.
    private func write(
        _ stage: DeliveryFixture, _ fill: @escaping @Sendable (Database, String) throws -> Void
    ) async throws {
        let queue = try DatabaseQueue(path: stage.databasePath)
        let epoch = stage.epoch.withLock { $0.description }
        try await queue.write { db in
            try db.execute(sql: Self.schema)
            try db.execute(sql: "INSERT INTO history VALUES (1, ?)", arguments: [epoch])
            try fill(db, DeliveryFixture.scope.description)
        }
        try queue.close()
    }
}
