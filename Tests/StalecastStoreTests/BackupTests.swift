import Foundation
import GRDB
import StalecastStore
import StalecastTestSupport
import StalecastWire
import Testing

@Suite struct BackupTests {
    let directory = try! TemporaryDirectory()
    let shelf = try! TemporaryDirectory()
    let log = LogLines()

    @Test func backupUnderPublishesIsOneConsistentState() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...20)
        let publisher = Task { try await store.put(21...200) }
        try store.backup(to: shelf.file("backup"))
        try await publisher.value
        #expect(try FileManager.default.contentsOfDirectory(atPath: shelf.path) == ["backup"])

        let restored = try TemporaryDirectory()
        _ = try TemplateStore.restore(from: shelf.file("backup"), to: restored.path)
        let copy = try TemplateStore.make(restored)
        let count = VersionNumber(clamping: copy.head())
        #expect((20...200).contains(count))
        #expect(try await copy.numbers() == Array((1...count).reversed()))
        #expect(try await copy.version(20, of: .demo) == store.version(20, of: .demo))
    }

    @Test func aBackupThatIsSentIsOneAtATimeAndLeavesNothing() async throws {
        let store = try TemplateStore.make(directory)
        for value in 1...20 { try await store.put(String(repeating: "\(value)", count: 100_000)) }
        // Of a process that was ended by force.
        try directory.write(Data("half".utf8), to: "sent.backup.unfinished-x")
        let before = Set(try FileManager.default.contentsOfDirectory(atPath: directory.path))
        var download: BackupDownload? = try await store.download()
        let error = await #expect(throws: StoreError.self) { try await store.download() }
        guard case .alreadyExists? = error else { throw try #require(error) }
        var bytes = Data()
        while let piece = download?.piece(at: bytes.count), !piece.isEmpty { bytes += piece }
        #expect(bytes.count == download?.size)
        try shelf.write(bytes, to: "backup")
        #expect(try TemplateStore.verifyBackup(shelf.file("backup")).scopes.map(\.latest) == [20])
        download = nil
        download = try await store.download()
        let after = Set(try FileManager.default.contentsOfDirectory(atPath: directory.path))
        #expect(after.subtracting(before) == ["last-backup"])
        #expect(before.subtracting(after) == ["sent.backup.unfinished-x"])
    }

    @Test func aBackupThatIsSentLeavesTheRoomThatPublishesNeed() async throws {
        var configuration = StoreConfiguration.make(directory)
        configuration.minFreeBytes = .max / 2
        let store = try TemplateStore.open(configuration)
        for _ in 0..<2 {
            let error = await #expect(throws: StoreError.self) { try await store.download() }
            guard case .diskFull? = error else { throw try #require(error) }
        }
    }

    /// Each part has more than one piece.
    @Test func largePartsComeBackByteForByte() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put("1")
        let deliveries = try DatabaseQueue(path: directory.file("deliveries.sqlite"))
        try await deliveries.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE attempt (id INTEGER PRIMARY KEY, content BLOB);
                    WITH RECURSIVE one(id) AS (VALUES (1) UNION ALL SELECT id + 1 FROM one LIMIT 25)
                    INSERT INTO attempt SELECT id, randomblob(99999) FROM one;
                    """)
        }
        func sum(_ queue: DatabaseQueue) async throws -> [String] {
            try await queue.read { try String.fetchAll($0, sql: "SELECT hex(content) FROM attempt ORDER BY id") }
        }
        let before = try await sum(deliveries)
        try deliveries.close()
        try store.backup(to: shelf.file("backup"))
        #expect(try FileManager.default.contentsOfDirectory(atPath: shelf.path) == ["backup"])
        #expect(try TemplateStore.verifyBackup(shelf.file("backup")).versions == 1)
        let elsewhere = try TemporaryDirectory()
        _ = try TemplateStore.restore(from: shelf.file("backup"), to: elsewhere.path)
        #expect(try await sum(DatabaseQueue(path: elsewhere.file("deliveries.sqlite"))) == before)
        #expect(try FileManager.default.contentsOfDirectory(atPath: shelf.path) == ["backup"])
    }

    @Test func theTimeOfTheLastBackupIsKept() async throws {
        let store = try TemplateStore.make(directory)
        #expect(store.lastBackup == nil)
        let before = Timestamp.now()
        try store.backup(to: shelf.file("backup"))
        let first = try #require(store.lastBackup)
        #expect(first >= before && first <= .now())
        #expect(throws: StoreError.self) { try store.backup(to: shelf.file("backup")) }
        #expect(store.lastBackup == first, "a backup that failed is none")
        store.close()
        try TemplateStore.backup(directory: directory.path + "/", to: shelf.file("second"))
        #expect(try #require(TemplateStore.make(directory).lastBackup) > first)
    }

    @Test func backupIsForItsOwnerOnly() async throws {
        try TemplateStore.make(directory).backup(to: shelf.file("backup"))
        let attributes = try FileManager.default.attributesOfItem(atPath: shelf.file("backup"))
        #expect(attributes[.posixPermissions] as? Int == 0o600)
    }

    @Test func backupOfAStoreThatIsNotOpenWorks() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...3)
        store.close()
        try TemplateStore.backup(directory: directory.path, to: shelf.file("backup"))
        let reopened = try TemplateStore.make(directory, log: log)
        #expect(try await reopened.numbers() == [3, 2, 1])
        #expect(log.all.isEmpty)
        try shelf.copy(["backup"], to: shelf)
        #expect(throws: StoreError.self) { try TemplateStore.backup(directory: shelf.path, to: shelf.file("x")) }
    }

    @Test func existingFileIsNotOverwritten() async throws {
        let store = try TemplateStore.make(directory)
        try shelf.write(Data("precious".utf8), to: "backup")
        let error = #expect(throws: StoreError.self) { try store.backup(to: shelf.file("backup")) }
        guard case .alreadyExists = error else { throw try #require(error) }
        #expect(try shelf.bytes("backup") == Data("precious".utf8))
    }

    @Test func whatIsNoBackupIsNotSpokenOfAsAStore() throws {
        try shelf.write(Data("nonsense".utf8), to: "backup")
        let error = #expect(throws: StoreError.self) { try TemplateStore.verifyBackup(shelf.file("backup")) }
        #expect(error.map { "\($0)".contains("it is no backup") && !"\($0)".contains("--data") } == true)
    }

    @Test func failedBackupLeavesNothing() throws {
        let store = try TemplateStore.make(directory)
        let error = #expect(throws: StoreError.self) { try store.backup(to: shelf.file("no/such/place")) }
        #expect(error.map { "\($0)".contains("no directory") && !"\($0)".contains("unfinished") } == true)
        #expect(try FileManager.default.contentsOfDirectory(atPath: shelf.path) == [])
    }

    @Test func restoreMintsANewEpochAndKeepsWhatItReplaced() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...3)
        try store.backup(to: shelf.file("backup"))
        try await store.put(4...5)
        // As after a crash: the last versions are in the log only.
        let crashed = try TemporaryDirectory()
        try directory.copy(["highwater", "stalecast.sqlite", "stalecast.sqlite-wal"], to: crashed)

        _ = try TemplateStore.restore(from: shelf.file("backup"), to: crashed.path)
        let restored = try TemplateStore.make(crashed, log: log)
        #expect(restored.epoch != store.epoch)
        #expect(try await restored.numbers() == [3, 2, 1])
        #expect(log.all.isEmpty)
        #expect(try await restored.put("other").version == 6, "clients may hold versions 4 and 5")

        let names = try FileManager.default.contentsOfDirectory(atPath: crashed.path)
        let kept = try #require(names.first { $0.contains(".before-restore-") && !$0.hasSuffix("-wal") })
        let replaced = try TemporaryDirectory()
        try replaced.write(crashed.bytes(kept), to: "stalecast.sqlite")
        try replaced.write(crashed.bytes(kept + "-wal"), to: "stalecast.sqlite-wal")
        #expect(try await TemplateStore.make(replaced).numbers() == [5, 4, 3, 2, 1])
    }

    @Test func restoringTwiceGivesTwoEpochs() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put("1")
        try store.backup(to: shelf.file("backup"))
        store.close()
        _ = try TemplateStore.restore(from: shelf.file("backup"), to: directory.path)
        let first = try TemplateStore.make(directory)
        first.close()
        _ = try TemplateStore.restore(from: shelf.file("backup"), to: directory.path)
        #expect(Set([store.epoch, first.epoch, try TemplateStore.make(directory).epoch]).count == 3)
    }

    @Test func directoryInUseIsNotRestoredInto() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put("1")
        try store.backup(to: shelf.file("backup"))
        try await store.put("2")
        let error = #expect(throws: StoreError.self) {
            _ = try TemplateStore.restore(from: shelf.file("backup"), to: directory.path)
        }
        guard case .locked = error else { throw try #require(error) }
        #expect(try await store.put("3").version == 3)
    }

    @Test func backupThatIsNoneChangesNothing() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put("1")
        store.close()
        let before = try directory.bytes("stalecast.sqlite")
        try shelf.write(Data("nonsense".utf8), to: "backup")
        for name in ["backup", "missing"] {
            #expect(throws: StoreError.self) {
                _ = try TemplateStore.restore(from: shelf.file(name), to: directory.path)
            }
        }
        #expect(try directory.bytes("stalecast.sqlite") == before)
        #expect(try TemplateStore.make(directory).epoch == store.epoch)
    }

    @Test func numbersGoOnAboveWhatTheReplacedStoreGaveAway() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...2)
        try store.backup(to: shelf.file("backup"))
        try await store.put(3...5)
        try await store.put(1...3, in: .demoServer)
        store.close()
        let report = try TemplateStore.restore(from: shelf.file("backup"), to: directory.path)
        #expect((report.floors[.demo], report.floors[.demoServer], report.knowsReplaced) == (5, 3, true))
        var restored = try TemplateStore.make(directory)
        let next = try await restored.put("6")
        #expect((next.version, next.etag) == (6, "etag-123456789012-6"))
        #expect(try await restored.put("4", in: .demoServer).version == 4)
        restored.close()
        // Again, and the floor of the first time is known from the replaced store.
        _ = try TemplateStore.restore(from: shelf.file("backup"), to: directory.path)
        restored = try TemplateStore.make(directory)
        #expect(try await restored.put("7").version == 7)
        #expect(try await restored.put("5", in: .demoServer).version == 5)
    }

    @Test func aDamagedStoreIsRestoredOverAndItsMarkIsBelieved() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...2)
        try store.backup(to: shelf.file("backup"))
        try await store.put(3...9)
        store.close()
        try directory.write(Data("damaged".utf8), to: "stalecast.sqlite")
        _ = try TemplateStore.restore(from: shelf.file("backup"), to: directory.path)
        let restored = try TemplateStore.make(directory)
        #expect(try await restored.put("10").version == 10)
        #expect(try await restored.put("first", in: .demoServer).version == 8, "7 commits may have been of any scope")
    }

    @Test func aRestoreElsewhereNeedsTheNumbersToBeGiven() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...2)
        try store.backup(to: shelf.file("backup"))
        let elsewhere = try TemporaryDirectory()
        let blind = try TemplateStore.restore(from: shelf.file("backup"), to: elsewhere.path)
        #expect(!blind.knowsReplaced)
        let told = try TemplateStore.restore(from: shelf.file("backup"), to: elsewhere.path, above: 40)
        #expect(told.floors[.demo] == 40)
        #expect(try await TemplateStore.make(elsewhere).put("41").version == 41)
    }

    @Test func arehearsalChangesNothing() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put("1")
        try store.backup(to: shelf.file("backup"))
        try await store.put("2")
        store.close()
        let files = { try FileManager.default.contentsOfDirectory(atPath: directory.path).sorted() }
        let before = (try files(), try directory.bytes("stalecast.sqlite"))
        let report = try TemplateStore.restore(from: shelf.file("backup"), to: directory.path, isRehearsal: true)
        #expect((report.floors[.demo], report.summary.scopes.map(\.latest)) == (2, [1]))
        #expect(try files() == before.0 && directory.bytes("stalecast.sqlite") == before.1)
        let missing = directory.file("nowhere")
        _ = try TemplateStore.restore(from: shelf.file("backup"), to: missing, isRehearsal: true)
        #expect(!FileManager.default.fileExists(atPath: missing))
    }

    @Test func webhooksComeAlongAsTheyAre() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put("1")
        for name in ["webhooks.sqlite", "deliveries.sqlite"] {
            let queue = try DatabaseQueue(path: directory.file(name))
            try await queue.write { db in
                try db.execute(sql: "CREATE TABLE webhook (id TEXT); INSERT INTO webhook VALUES ('\(name)'), ('b')")
            }
        }
        try store.backup(to: shelf.file("backup"))
        #expect(try FileManager.default.contentsOfDirectory(atPath: shelf.path) == ["backup"])
        let summary = try TemplateStore.verifyBackup(shelf.file("backup"))
        #expect((summary.webhooks, summary.versions) == (2, 1))
        #expect(try #require(summary.madeAt) <= .now())

        let other = try TemporaryDirectory()
        try other.write(Data("old".utf8), to: "webhooks.sqlite")
        let report = try TemplateStore.restore(from: shelf.file("backup"), to: other.path)
        #expect(report.hasWebhooks)
        for name in ["webhooks.sqlite", "deliveries.sqlite"] {
            let ids = try await DatabaseQueue(path: other.file(name)).read {
                try String.fetchAll($0, sql: "SELECT id FROM webhook")
            }
            #expect(ids == [name, "b"])
        }
        let names = try FileManager.default.contentsOfDirectory(atPath: other.path)
        let kept = try #require(names.first { $0.hasPrefix("webhooks.sqlite.before-restore-") })
        #expect(try other.bytes(kept) == Data("old".utf8))
        #expect(!names.contains { $0.contains("unfinished") })
        let restored = try await DatabaseQueue(path: other.database).read { try $0.tableExists("attachment") }
        #expect(!restored)
    }

    @Test func aBackupWithADamagedVersionIsFound() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...3)
        try store.backup(to: shelf.file("backup"))
        let queue = try DatabaseQueue(path: shelf.file("backup"))
        try await queue.write { try $0.execute(sql: "UPDATE version SET content = '{' WHERE number = 2") }
        try queue.close()
        let error = #expect(throws: StoreError.self) { try TemplateStore.verifyBackup(shelf.file("backup")) }
        #expect(error?.description.contains("version 2 of demo/firebase") == true)
    }

    @Test func ofReplacedStoresTheNewestThreeStay() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put("1")
        try store.backup(to: shelf.file("backup"))
        store.close()
        // The log of a lost store is none of the three.
        try directory.write(Data("log".utf8), to: "stalecast.sqlite.before-restore-19700101T000002.500000Z-wal")
        for second in 1...5 {
            let report = try TemplateStore.restore(
                from: shelf.file("backup"), to: directory.path, now: Timestamp(microseconds: Int64(second) * 1_000_000))
            #expect(report.removed.count == [0, 0, 0, 1, 1][second - 1])
        }
        let names = try FileManager.default.contentsOfDirectory(atPath: directory.path)
        #expect(names.count { $0.contains("before-restore") } == 4)
    }

    /// SQLite would take a lost database's log for the restored one's. An earlier restore has left a whole store, which the
    /// log is not of.
    @Test(arguments: [true, false]) func aLostDatabasesLogDoesNotStayBesideTheRestoredOne(isSecond: Bool) async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...2)
        try store.backup(to: shelf.file("backup"))
        if isSecond {
            store.close()
            _ = try TemplateStore.restore(from: shelf.file("backup"), to: directory.path)
        }
        let newest = isSecond ? try TemplateStore.make(directory) : store
        try await newest.put(3...5)
        let lost = try TemporaryDirectory()
        let names = try FileManager.default.contentsOfDirectory(atPath: directory.path)
        try directory.copy(names.filter { $0 != "lock" && $0 != "stalecast.sqlite" }, to: lost)
        let log = try lost.bytes("stalecast.sqlite-wal")
        #expect(throws: StoreError.self) { try TemplateStore.make(lost) }

        let report = try TemplateStore.restore(from: shelf.file("backup"), to: lost.path)
        let kept = try #require(report.kept)
        #expect(kept.hasSuffix("-wal") && kept.contains(".before-restore-"))
        #expect(try Data(contentsOf: URL(fileURLWithPath: kept)) == log)
        let beside = try FileManager.default.contentsOfDirectory(atPath: lost.path)
        #expect(beside.filter { $0.hasSuffix("-wal") || $0.hasSuffix("-shm") }.map(lost.file) == [kept])
        let restored = try TemplateStore.make(lost)
        #expect(try await restored.numbers() == [2, 1])
        #expect(try await restored.put("next").version > 5, "clients may hold versions 3 to 5")
    }

    @Test func aBackupWithoutALostDatabaseOfWebhooksIsRefused() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put("1")
        try directory.write(Data("log".utf8), to: "webhooks.sqlite-wal")
        let error = #expect(throws: StoreError.self) { try store.backup(to: shelf.file("backup")) }
        #expect(error.map { "\($0)".contains("webhooks.sqlite is missing") } == true)
        #expect(try FileManager.default.contentsOfDirectory(atPath: shelf.path) == [])
    }

    /// The next start would refuse the log.
    @Test func restoreMovesTheLogOfALostDatabaseAway() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put("1")
        try store.backup(to: shelf.file("backup"))
        store.close()
        try directory.write(Data("log".utf8), to: "webhooks.sqlite-wal")
        _ = try TemplateStore.restore(from: shelf.file("backup"), to: directory.path)
        #expect(try await TemplateStore.make(directory).numbers() == [1])
        let names = try FileManager.default.contentsOfDirectory(atPath: directory.path)
        #expect(names.contains { $0.hasPrefix("webhooks.sqlite.before-restore-") && $0.hasSuffix("-wal") })
    }

    /// Cuts off between the two renames, and before the new store has its name: a start refuses, the restore can be run
    /// again, and the replaced pair is a whole store.
    @Test(arguments: [true, false]) func aRestoreThatWasCutOffIsNoticedAndRepeated(hasLog: Bool) async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...2)
        try store.backup(to: shelf.file("backup"))
        try await store.put(3...5)
        let crashed = try TemporaryDirectory()
        try directory.copy(["highwater", "stalecast.sqlite", "stalecast.sqlite-wal"], to: crashed)
        let kept = "stalecast.sqlite.before-restore-20261120T130000.000000Z"
        let files = FileManager.default
        try files.moveItem(atPath: crashed.database, toPath: crashed.file(kept))
        if !hasLog { try files.moveItem(atPath: crashed.database + "-wal", toPath: crashed.file(kept) + "-wal") }
        try crashed.write(Data(), to: "stalecast.sqlite.unfinished")
        #expect(throws: StoreError.self) { try TemplateStore.make(crashed) }
        _ = try TemplateStore.restore(from: shelf.file("backup"), to: crashed.path)
        #expect(try await TemplateStore.make(crashed).put("6").version == 6)
        let replaced = try TemporaryDirectory()
        try replaced.write(crashed.bytes(kept), to: "stalecast.sqlite")
        try replaced.write(crashed.bytes(kept + "-wal"), to: "stalecast.sqlite-wal")
        #expect(try await TemplateStore.make(replaced).numbers() == [5, 4, 3, 2, 1])
    }
}
