import GRDB
import StalecastWire

/// The database's tables, and how a file is known to be ours.
enum Schema {
    /// Mark in the header of every store, `STLC`: SQLite's `application_id`.
    static let applicationID: UInt32 = 0x5354_4C43
    /// SQLite's `user_version`; the highest migration.
    static let version = 7

    /// `content` is the last column of `version`, so that listing metadata does not read its overflow pages.
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { db in
            try db.execute(
                sql: """
                    CREATE TABLE store (
                        id INTEGER PRIMARY KEY CHECK (id = 1),
                        epoch TEXT NOT NULL,
                        head INTEGER NOT NULL
                    ) STRICT;
                    CREATE TABLE scope (
                        id INTEGER PRIMARY KEY,
                        project TEXT NOT NULL,
                        namespace TEXT NOT NULL,
                        latest INTEGER NOT NULL,
                        UNIQUE (project, namespace)
                    ) STRICT;
                    CREATE TABLE version (
                        scope INTEGER NOT NULL REFERENCES scope (id),
                        number INTEGER NOT NULL,
                        sequence INTEGER NOT NULL UNIQUE,
                        updateTime INTEGER NOT NULL,
                        userName TEXT NOT NULL,
                        userEmail TEXT NOT NULL,
                        userImage TEXT NOT NULL,
                        description TEXT NOT NULL,
                        origin TEXT NOT NULL,
                        type TEXT NOT NULL,
                        rollbackSource INTEGER,
                        etag TEXT NOT NULL,
                        changedKeys TEXT,
                        content TEXT NOT NULL,
                        UNIQUE (scope, number)
                    ) STRICT;
                    CREATE INDEX versionTime ON version (scope, updateTime);
                    PRAGMA user_version = 1;
                    """)
        }
        migrator.registerMigration("2") { db in
            // See ``NumberFloors``; the row without a project is of all scopes.
            try db.execute(
                sql: """
                    CREATE TABLE floor (
                        project TEXT NOT NULL, namespace TEXT NOT NULL, number INTEGER NOT NULL,
                        PRIMARY KEY (project, namespace)
                    ) STRICT;
                    PRAGMA user_version = 2;
                    """)
        }
        migrator.registerMigration("3") { db in
            // See ``TemplateStore/storeKey(_:record:removing:committed:)``.
            try db.execute(
                sql: """
                    CREATE TABLE accessKey (id TEXT PRIMARY KEY, record TEXT NOT NULL) STRICT, WITHOUT ROWID;
                    PRAGMA user_version = 3;
                    """)
        }
        migrator.registerMigration("4") { db in
            // See ``TemplateStore/keep(_:)``.
            try db.execute(
                sql: """
                    CREATE TABLE propagation (
                        project TEXT NOT NULL, namespace TEXT NOT NULL, number INTEGER NOT NULL, record TEXT NOT NULL,
                        PRIMARY KEY (project, namespace, number)
                    ) STRICT, WITHOUT ROWID;
                    PRAGMA user_version = 4;
                    """)
        }
        migrator.registerMigration("5") { db in
            // See ``ProposalTable``.
            try db.execute(
                sql: """
                    CREATE TABLE proposal (
                        project TEXT NOT NULL, namespace TEXT NOT NULL, number INTEGER NOT NULL,
                        state TEXT NOT NULL, createTime INTEGER NOT NULL, record TEXT NOT NULL, content TEXT,
                        PRIMARY KEY (project, namespace, number)
                    ) STRICT;
                    PRAGMA user_version = 5;
                    """)
        }
        migrator.registerMigration("6") { db in
            // See ``TemplateStore/keep(_:)-(SentMessage)``.
            try db.execute(
                sql: """
                    CREATE TABLE message (
                        id INTEGER PRIMARY KEY, project TEXT NOT NULL, time INTEGER NOT NULL, record TEXT NOT NULL
                    ) STRICT;
                    CREATE INDEX messageOfProject ON message (project, id);
                    PRAGMA user_version = 6;
                    """)
        }
        migrator.registerMigration("7") { db in
            // See ``ReleaseTable``. A release has a base in its row while it is open; retention keeps that version.
            try db.execute(
                sql: """
                    CREATE TABLE release (
                        project TEXT NOT NULL, namespace TEXT NOT NULL, base INTEGER, number INTEGER NOT NULL,
                        record TEXT NOT NULL, PRIMARY KEY (project, namespace, number)
                    ) STRICT, WITHOUT ROWID;
                    PRAGMA user_version = 7;
                    """)
        }
        return migrator
    }

    /// Drops the index of a scope's times, which each publish wrote a page of. Its queries read a scope's versions in the
    /// order of their numbers. Not a migration: programs that make and use the index open the file as before.
    static func dropTimeIndex(_ db: Database) throws {
        try db.execute(sql: "DROP INDEX IF EXISTS versionTime")
    }

    /// Makes an empty store of a new epoch at `path`, complete and in the rollback journal's mode, so that the header
    /// of a file that has its final name always tells what it is.
    static func create(at path: String, epoch: Epoch) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA application_id = \(applicationID)") }
        try migrator.migrate(queue)
        try queue.write { db in
            try db.execute(sql: "INSERT INTO store (id, epoch, head) VALUES (1, ?, 0)", arguments: [epoch.description])
        }
        try queue.close()
    }
}
