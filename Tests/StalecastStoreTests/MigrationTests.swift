import GRDB
import StalecastStore
import StalecastTestSupport
import StalecastWire
import Testing

/// Stores as former releases left them are opened, whichever it was. The texts are history: they never change.
@Suite struct MigrationTests {
    /// Tables that each release's migration made.
    private static let history = [
        """
        CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY);
        CREATE TABLE store (
            id INTEGER PRIMARY KEY CHECK (id = 1), epoch TEXT NOT NULL, head INTEGER NOT NULL) STRICT;
        CREATE TABLE scope (
            id INTEGER PRIMARY KEY, project TEXT NOT NULL, namespace TEXT NOT NULL, latest INTEGER NOT NULL,
            UNIQUE (project, namespace)) STRICT;
        CREATE TABLE version (
            scope INTEGER NOT NULL REFERENCES scope (id), number INTEGER NOT NULL, sequence INTEGER NOT NULL UNIQUE,
            updateTime INTEGER NOT NULL, userName TEXT NOT NULL, userEmail TEXT NOT NULL, userImage TEXT NOT NULL,
            description TEXT NOT NULL, origin TEXT NOT NULL, type TEXT NOT NULL, rollbackSource INTEGER,
            etag TEXT NOT NULL, changedKeys TEXT, content TEXT NOT NULL, UNIQUE (scope, number)) STRICT;
        CREATE INDEX versionTime ON version (scope, updateTime);
        INSERT INTO store VALUES (1, 'abcdefghijklmnopqrstuvwxyz', 1);
        INSERT INTO scope VALUES (1, 'demo', 'firebase', 1);
        INSERT INTO version VALUES (
            1, 1, 1, 1795000000000000, 'Ada', '', '', 'first', 'REST_API', 'INCREMENTAL_UPDATE', NULL,
            'etag-123456789012-1', NULL, '{"parameters":{"greeting":{"defaultValue":{"value":"hello"}}}}');
        PRAGMA application_id = 0x53544C43;
        """,
        """
        CREATE TABLE floor (
            project TEXT NOT NULL, namespace TEXT NOT NULL, number INTEGER NOT NULL,
            PRIMARY KEY (project, namespace)) STRICT;
        INSERT INTO floor VALUES ('demo', 'firebase', 6);
        """,
        """
        CREATE TABLE accessKey (id TEXT PRIMARY KEY, record TEXT NOT NULL) STRICT, WITHOUT ROWID;
        INSERT INTO accessKey VALUES ('k', '{"id":"k"}');
        """,
        """
        CREATE TABLE propagation (
            project TEXT NOT NULL, namespace TEXT NOT NULL, number INTEGER NOT NULL, record TEXT NOT NULL,
            PRIMARY KEY (project, namespace, number)) STRICT, WITHOUT ROWID;
        INSERT INTO propagation VALUES ('demo', 'firebase', 1, '{}');
        """,
        """
        CREATE TABLE proposal (
            project TEXT NOT NULL, namespace TEXT NOT NULL, number INTEGER NOT NULL,
            state TEXT NOT NULL, createTime INTEGER NOT NULL, record TEXT NOT NULL, content TEXT,
            PRIMARY KEY (project, namespace, number)) STRICT;
        INSERT INTO proposal VALUES ('demo', 'firebase', 1, 'REJECTED', 1795000000000000, '{}', NULL);
        """,
        """
        CREATE TABLE message (
            id INTEGER PRIMARY KEY, project TEXT NOT NULL, time INTEGER NOT NULL, record TEXT NOT NULL) STRICT;
        CREATE INDEX messageOfProject ON message (project, id);
        """,
    ]

    @Test(arguments: 1...history.count) func aStoreOfEveryReleaseIsOpened(_ release: Int) async throws {
        let directory = try TemporaryDirectory()
        let queue = try DatabaseQueue(path: directory.database)
        try await queue.writeWithoutTransaction { db in
            for number in 1...release {
                try db.execute(sql: Self.history[number - 1])
                try db.execute(sql: "INSERT INTO grdb_migrations VALUES (?)", arguments: [String(number)])
            }
            try db.execute(sql: "PRAGMA user_version = \(release)")
        }
        try queue.close()
        let store = try TemplateStore.make(directory)
        #expect(try await store.current(.demo)?.template.greeting == "hello")
        #expect(try await store.put("next").version == (release >= 2 ? 7 : 2))
        #expect(try store.keyRecords().count == (release >= 3 ? 1 : 0))
        #expect(try (store.propagationAtStart(of: .demo, 1) != nil) == (release >= 4))
        let person = Proposal.Person(principal: "bootstrap", user: UpdateUser())
        let proposal = try await store.propose(
            Publish(scope: .demo, template: .greeting("x"), precondition: .any), by: person)
        #expect(proposal.number == (release >= 5 ? 2 : 1))
        await store.keep(
            SentMessage(
                project: .demo, name: "m", time: Timestamp(microseconds: 1), target: "PUSH_RC", keys: ["a"],
                sender: person))
        #expect(try await store.messages(of: .demo, limit: 9).map(\.sender) == [person])
        store.close()
        // Former programs work without it; the table's own index serves.
        let indexes = try await DatabaseQueue(path: directory.database).read {
            try String.fetchAll($0, sql: "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'version'")
        }
        #expect(!indexes.isEmpty && !indexes.contains("versionTime"))
        // And once more, as what it is now.
        #expect(try await TemplateStore.make(directory).proposal(proposal.number, of: .demo)?.template?.greeting == "x")
    }
}
