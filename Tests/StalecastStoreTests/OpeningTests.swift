import Foundation
import GRDB
import StalecastStore
import StalecastTestSupport
import StalecastWire
import Testing

@Suite struct OpeningTests {
    let directory = try! TemporaryDirectory()

    @Test func newDirectoryIsMadeForItsOwnerOnly() throws {
        var configuration = StoreConfiguration.make(directory)
        configuration.directory = directory.file("deep/er/")
        _ = try TemplateStore.open(configuration)
        let attributes = try FileManager.default.attributesOfItem(atPath: directory.file("deep/er"))
        #expect(attributes[.posixPermissions] as? Int == 0o700)
    }

    @Test func existingEmptyDirectoryIsTightenedAndOneWithOtherThingsIsLeft() throws {
        let files = FileManager.default
        try files.setAttributes([.posixPermissions: 0o755], ofItemAtPath: directory.path)
        try TemplateStore.make(directory).close()
        #expect(try files.attributesOfItem(atPath: directory.path)[.posixPermissions] as? Int == 0o700)

        let shared = try TemporaryDirectory()
        try shared.write(Data("x".utf8), to: "other")
        try files.setAttributes([.posixPermissions: 0o755], ofItemAtPath: shared.path)
        let log = LogLines()
        _ = try TemplateStore.make(shared, log: log)
        #expect(try files.attributesOfItem(atPath: shared.path)[.posixPermissions] as? Int == 0o755)
        #expect(log.contains("open to others"))
    }

    @Test func secondOpenerIsRefusedWithTheHoldersProcessId() throws {
        let store = try TemplateStore.make(directory)
        let error = #expect(throws: StoreError.self) { try TemplateStore.make(directory) }
        guard case .locked(let sentence) = error else { throw try #require(error) }
        #expect(sentence.contains("process \(ProcessInfo.processInfo.processIdentifier)"))
        store.close()
        _ = try TemplateStore.make(directory)
    }

    @Test func aNumberFromTimesThatCheckedNothingStopsItsScopeOnly() async throws {
        var store = try TemplateStore.make(directory)
        try await store.put(1...2)
        store.close()
        let file = try DatabaseQueue(path: directory.database)
        try await file.write {
            try $0.execute(sql: "UPDATE version SET number = 9223372036854775807, etag = 'etag-1-9' WHERE number = 2")
            try $0.execute(sql: "UPDATE scope SET latest = 9223372036854775807")
        }
        try file.close()
        store = try TemplateStore.make(directory)
        #expect(try await store.numbers() == [.max, 1])
        #expect(try await store.current(.demo)?.template.greeting == "2")
        #expect(try store.changes(of: .demo, after: 1, limit: 9).count == 1)
        #expect(await storeError { try await store.put("3") } == .numbersExhausted(.demo))
        #expect(try await store.put("x", in: .demoServer).version == 1)
    }

    @Test(arguments: ["UPDATE store SET head = 9", "UPDATE scope SET latest = 9"])
    func aWriteOfAnotherProcessStopsTheStore(write: String) async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...2)
        let file = try DatabaseQueue(path: directory.database)
        try await file.write { try $0.execute(sql: write) }
        for value in ["3", "4"] {
            guard case .unavailable? = await storeError({ try await store.put(value) }) else {
                Issue.record("was committed")
                continue
            }
        }
        #expect(try await file.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM version") } == 2)
    }

    @Test func foreignFilesAreRefusedAndUntouched() throws {
        let other = try DatabaseQueue(path: directory.file("other"))
        try other.write { try $0.execute(sql: "CREATE TABLE t (a); PRAGMA user_version = 1") }
        try other.close()
        let contents = [Data(), Data("not a database\n".utf8), Data(count: 100_000), try directory.bytes("other")]
        for content in contents.dropLast() { try expectRefusal(of: content) }
        try expectRefusal(of: contents[3], as: StoreError.notAStore)
    }

    @Test func damagedStoresAreRefusedAndUntouched() async throws {
        let store = try TemplateStore.make(directory)
        for value in 1...30 { try await store.put(String(repeating: "\(value)", count: 5000)) }
        store.close()
        let sound = try directory.bytes("stalecast.sqlite")
        try expectRefusal(of: sound.prefix(sound.count / 2), mentions: "damaged")
        try expectRefusal(
            of: sound.prefix(4096) + Data(repeating: 0xA5, count: sound.count - 4096),
            mentions: "damaged")
        var zeroed = sound
        zeroed.replaceSubrange(8192..<16384, with: Data(count: 8192))
        try expectRefusal(of: zeroed, mentions: "damaged")
    }

    @Test func storeOfANewerProgramIsRefusedAndUntouched() throws {
        try TemplateStore.make(directory).close()
        let queue = try DatabaseQueue(path: directory.database)
        try queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA user_version = 99") }
        try queue.close()
        try expectRefusal(of: directory.bytes("stalecast.sqlite"), as: StoreError.notAStore, mentions: "newer")
    }

    @Test func countersThatContradictTheVersionsAreRefused() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...3)
        store.close()
        let queue = try DatabaseQueue(path: directory.database)
        try await queue.writeWithoutTransaction { try $0.execute(sql: "DELETE FROM version WHERE number = 3") }
        try queue.close()
        try expectRefusal(of: directory.bytes("stalecast.sqlite"), mentions: "counters")
    }

    @Test func logWithoutItsDatabaseIsRefusedAndUntouched() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...3)
        let orphan = try TemporaryDirectory()
        try directory.copy(["stalecast.sqlite-wal"], to: orphan)
        let before = try orphan.bytes("stalecast.sqlite-wal")
        #expect(throws: StoreError.self) { try TemplateStore.make(orphan) }
        #expect(try orphan.bytes("stalecast.sqlite-wal") == before)
    }

    @Test(arguments: ["webhooks.sqlite", "deliveries.sqlite"])
    func aLostDatabaseOfWebhooksStopsTheStart(name: String) throws {
        try TemplateStore.make(directory).close()
        try directory.write(Data("log".utf8), to: name + "-wal")
        let started = #expect(throws: StoreError.self) { try TemplateStore.make(directory) }
        let judged = #expect(throws: StoreError.self) { try TemplateStore.isReadable(in: directory.path) }
        for error in [started, judged] {
            #expect(error?.description.contains("\(name) is missing") == true, "\(error?.description ?? "")")
        }
        #expect(try directory.bytes(name + "-wal") == Data("log".utf8))
    }

    @Test func theLogOfALostStoreIsNoRestoreThatWasCutOff() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...3)
        store.close()
        try FileManager.default.removeItem(atPath: directory.database)
        let kept = "stalecast.sqlite.before-restore-20261120T130000.000000Z"
        try directory.write(Data("log".utf8), to: kept + "-wal")
        func sentence() -> String? {
            #expect(throws: StoreError.self) { try TemplateStore.make(directory) }?.description
        }
        #expect(sentence()?.contains("it held 3 commits") == true)
        try directory.write(Data("store".utf8), to: kept)
        #expect(sentence()?.contains("if that was cut off, run it again") == true)
    }

    @Test func unfinishedDatabaseOfACrashedFirstStartIsReplaced() throws {
        try directory.write(Data("half".utf8), to: "stalecast.sqlite.unfinished")
        let store = try TemplateStore.make(directory)
        #expect(store.head() == 0)
    }

    @Test func dataOfAProjectThatIsNoLongerConfiguredIsKept() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...2)
        store.close()
        var configuration = StoreConfiguration.make(directory)
        configuration.projects = [StoreConfiguration.Project(id: try ProjectID("other"), number: 7)]
        let without = try TemplateStore.open(configuration)
        #expect(without.projects.resolve("demo") == nil)
        #expect(await storeError { try await without.put("3") } == .unknownProject(Scope.demo.project))
        without.close()
        #expect(try await TemplateStore.make(directory).numbers() == [2, 1])
    }

    /// Kubernetes makes it `root:65532`, 02775, for `fsGroup: 65532`.
    @Test func aVolumeOfThisPodIsNotOpenToOthers() {
        func access(_ owner: UInt32 = 0, _ group: UInt32 = 65532, _ mode: UInt32 = 0o42775) -> DirectoryAccess {
            DirectoryAccess(owner: owner, group: group, mode: mode)
        }
        #expect(access().isVolume(of: [0, 65532]))
        #expect(!access().isVolume(of: [0, 1000]) && !access(1000).isVolume(of: [65532]))
        #expect(!access(0, 65532, 0o42777).isVolume(of: [65532]) && !access(0, 65532, 0o40775).isVolume(of: [65532]))
        #expect(!access(0, 0).isVolume(of: [0]))
    }

    @Test func closedStoreHasEverythingInTheDatabaseFile() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...5)
        store.close()
        let copy = try TemporaryDirectory()
        try directory.copy(["stalecast.sqlite"], to: copy)
        #expect(try await TemplateStore.make(copy).numbers() == [5, 4, 3, 2, 1])
    }

    @Test func writeAheadLogStaysBounded() async throws {
        let store = try TemplateStore.make(directory)
        var largest = 0
        for value in 1...150 {
            try await store.put(String(repeating: "\(value % 10)", count: 100_000))
            largest = max(largest, try directory.bytes("stalecast.sqlite-wal").count)
        }
        #expect(largest > 1 << 20)
        #expect(largest < 6 << 20)
    }

    /// A commit that makes the file larger makes the disk write its size too.
    @Test func writeAheadLogIsWrittenOverAndOnlyALargeOneIsCutOff() async throws {
        var configuration = StoreConfiguration.make(directory)
        configuration.checkpointBytes = 32 << 10
        let store = try TemplateStore.open(configuration)
        var sizes: [Int] = []
        for value in 1...60 {
            try await store.put("\(value)")
            sizes.append(try directory.bytes("stalecast.sqlite-wal").count)
        }
        #expect(zip(sizes, sizes.dropFirst()).allSatisfy { $0 <= $1 })
        #expect(sizes[59] > 32 << 10 && sizes[59] < 128 << 10)
        try await store.put(String(repeating: "x", count: 100_000))
        // The log is larger now, until it is written back: after the answer, and perhaps after the next publish.
        try await store.put(61...63)
        #expect(try directory.bytes("stalecast.sqlite-wal").count < 128 << 10)
        store.close()
        #expect(try await TemplateStore.make(directory).numbers().count == 64)
    }

    /// A publish that comes while another one is committed must not keep the log from being written back.
    @Test func writeAheadLogStaysBoundedWhilePublishesOverlap() async throws {
        var configuration = StoreConfiguration.make(directory)
        configuration.checkpointBytes = 64 << 10
        let store = try TemplateStore.open(configuration)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for scope in [Scope.demo, .demoServer] { group.addTask { try await store.put(1...150, in: scope) } }
            try await group.waitForAll()
        }
        #expect(try directory.bytes("stalecast.sqlite-wal").count < 1 << 20)
    }

    /// Opening a directory with this database is refused, and leaves every byte as it is.
    private func expectRefusal(
        of content: some DataProtocol, as kind: (String) -> StoreError = StoreError.damaged,
        mentions word: String = "database",
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let place = try TemporaryDirectory()
        try place.write(Data(content), to: "stalecast.sqlite")
        let error = #expect(throws: StoreError.self, sourceLocation: sourceLocation) {
            try TemplateStore.make(place)
        }
        let sentence = try #require(error?.description, sourceLocation: sourceLocation)
        #expect(error == kind(sentence), sourceLocation: sourceLocation)
        #expect(sentence.contains("not changed") && sentence.contains(word), sourceLocation: sourceLocation)
        #expect(try place.bytes("stalecast.sqlite") == Data(content), sourceLocation: sourceLocation)
    }
}
