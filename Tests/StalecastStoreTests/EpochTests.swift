import Foundation
import StalecastStore
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

/// The high-water mark: what was served must not be forgotten unnoticed.
@Suite struct EpochTests {
    let directory = try! TemporaryDirectory()
    let log = LogLines()
    private let everything = ["highwater", "stalecast.sqlite", "stalecast.sqlite-wal"]

    @Test func cleanAndUncleanRestartsKeepTheEpoch() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...3)
        let image = try TemporaryDirectory()
        try directory.copy(everything, to: image)
        store.close()
        #expect(try TemplateStore.make(image, log: log).epoch == store.epoch)
        #expect(try TemplateStore.make(directory, log: log).epoch == store.epoch)
        #expect(log.all.isEmpty)
    }

    @Test func databaseCopiedBackGetsANewEpoch() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...2)
        store.close()
        let old = try directory.bytes("stalecast.sqlite")
        let next = try TemplateStore.make(directory, log: log)
        try await next.put("3")
        next.close()
        try directory.write(old, to: "stalecast.sqlite")

        let rolledBack = try TemplateStore.make(directory, log: log)
        #expect(rolledBack.epoch != store.epoch)
        #expect(rolledBack.head() == 2)
        #expect(log.contains("new epoch") && rolledBack.beganAnew && !next.beganAnew)
        #expect(try await rolledBack.put("clients hold a version 3").version == 4)
        rolledBack.close()
        let later = try TemplateStore.make(directory)
        #expect(later.epoch == rolledBack.epoch && !later.beganAnew)
    }

    @Test func aMissingLogIsRefusedUntilTheOperatorDecides() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...3)
        let image = try TemporaryDirectory()
        // A process that was ended by force leaves these files, and the log that is missing here.
        try directory.copy(["highwater", "stalecast.sqlite", "stalecast.sqlite-shm"], to: image)
        store.close()
        for _ in 0..<2 {
            let error = try #require(throws: StoreError.self) { try TemplateStore.make(image, log: log) }
            #expect("\(error)".contains("stalecast.sqlite-wal is missing, and with it 3 of 3 commits"))
        }
        try FileManager.default.removeItem(atPath: image.file("stalecast.sqlite-shm"))
        let after = try TemplateStore.make(image, log: log)
        #expect(after.epoch != store.epoch && log.contains("new epoch"))
        #expect(try await after.put("clients hold a version 3").version == 4)
    }

    @Test func anOperatorBeginsANewHistoryAfterASnapshotWasPutBack() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...2)
        try await store.put(1...1, in: .demoServer)
        let locked = try #require(throws: StoreError.self) { try TemplateStore.beginNewEpoch(in: directory.path) }
        guard case .locked = locked else { throw locked }
        let snapshot = try TemporaryDirectory()
        try directory.copy(everything, to: snapshot)

        let rehearsed = try TemplateStore.beginNewEpoch(in: snapshot.path, above: 15, isRehearsal: true)
        #expect(rehearsed.newEpoch == nil && rehearsed.oldEpoch == store.epoch)
        let unchanged = try TemporaryDirectory()
        try snapshot.copy(everything, to: unchanged)
        #expect(try TemplateStore.make(unchanged, log: log).epoch == store.epoch)

        let report = try TemplateStore.beginNewEpoch(in: snapshot.path, above: 15)
        #expect(report.latest == [.demo: 2, .demoServer: 1] && report.floors[.demo] == 15)
        let after = try TemplateStore.make(snapshot, log: log)
        #expect(after.epoch == report.newEpoch && after.epoch != store.epoch && !after.beganAnew)
        #expect(try await after.numbers() == [2, 1] && after.head() == 3)
        #expect(try await after.put("3").version == 16)
        #expect(try await after.put("2", in: .demoServer).version == 16)
        #expect(log.all.isEmpty)
    }

    @Test func aNewHistoryNeedsAStoreThatIsWhole() async throws {
        let nothing = try #require(throws: StoreError.self) { try TemplateStore.beginNewEpoch(in: directory.path) }
        #expect("\(nothing)".contains("there is no store"))
        let store = try TemplateStore.make(directory)
        try await store.put(1...3)
        let image = try TemporaryDirectory()
        try directory.copy(["highwater", "stalecast.sqlite", "stalecast.sqlite-shm"], to: image)
        let error = try #require(throws: StoreError.self) { try TemplateStore.beginNewEpoch(in: image.path) }
        #expect("\(error)".contains("stalecast.sqlite-wal is missing"))
    }

    @Test func databaseOfAnotherStoreGetsANewEpoch() async throws {
        try TemplateStore.make(directory).close()
        let other = try TemporaryDirectory()
        let foreign = try TemplateStore.make(other)
        try await foreign.put(1...9)
        foreign.close()
        try other.copy(["stalecast.sqlite"], to: directory)
        #expect(try TemplateStore.make(directory, log: log).epoch != foreign.epoch)
        #expect(log.contains("new epoch"))
    }

    @Test func missingMarkIsAcceptedAndMadeAgain() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put("1")
        store.close()
        try FileManager.default.removeItem(atPath: directory.file("highwater"))
        let reopened = try TemplateStore.make(directory, log: log)
        #expect(reopened.epoch == store.epoch)
        #expect(log.contains("recreated"))
        #expect(try directory.bytes("highwater").count > 0)
    }

    @Test func markWithOneTornSlotStillHoldsAndADamagedOneCostsTheEpoch() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...4)
        store.close()
        let mark = try directory.bytes("highwater")
        var torn = mark
        torn.replaceSubrange(10..<40, with: Data(count: 30))
        try directory.write(torn, to: "highwater")
        let kept = try TemplateStore.make(directory)
        #expect(kept.epoch == store.epoch)
        kept.close()
        try directory.write(Data(count: mark.count), to: "highwater")
        #expect(try TemplateStore.make(directory, log: log).epoch != store.epoch)
    }

    @Test func deletedDatabaseBeginsAnotherEpoch() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...4)
        store.close()
        try FileManager.default.removeItem(atPath: directory.database)
        let error = #expect(throws: StoreError.self) { try TemplateStore.make(directory) }
        #expect(
            error?.description.contains("it held 4 commits") == true
                && error?.description.contains("--begin-empty") == true)
        #expect(!FileManager.default.fileExists(atPath: directory.database))
        var configuration = StoreConfiguration.make(directory)
        configuration.beginEmpty = true
        let empty = try TemplateStore.open(configuration, log: log.add)
        #expect(empty.epoch != store.epoch)
        #expect(empty.head() == 0)
        #expect(log.contains("database is gone"))
        #expect(try await empty.put("numbers go on").version == 5)
        empty.close()
        #expect(try await TemplateStore.make(directory).put("next").version == 6)
    }

    @Test func whatACrashLeavesIsAPrefixOfTheVersions() async throws {
        var configuration = StoreConfiguration.make(directory)
        configuration.checkpointBytes = .max
        let store = try TemplateStore.open(configuration)
        let publisher = Task { try await store.put(1...400) }
        for _ in 1...20 {
            let image = try TemporaryDirectory()
            let acknowledged = store.head()
            // In this order: a real crash shows all three at one moment, of which the log is the latest.
            try directory.copy(everything, to: image)
            let reopened = try TemplateStore.make(image)
            let count = VersionNumber(clamping: reopened.head())
            #expect(reopened.head() >= acknowledged)
            #expect(reopened.epoch == store.epoch)
            #expect(try await reopened.numbers() == Array((0..<Int(count.rawValue)).map { count - $0 }.prefix(300)))
            #expect(try await reopened.current(.demo)?.template.greeting == (count == 0 ? nil : "\(count)"))
        }
        try await publisher.value
    }

    @Test func everyCommitThatIsAnnouncedIsOnDiskWithItsMark() async throws {
        var configuration = StoreConfiguration.make(directory)
        configuration.checkpointBytes = 32 << 10
        let store = try TemplateStore.open(configuration)
        let images = Mutex<[(CommitSequence, TemporaryDirectory)]>([])
        let source = directory
        store.setCommitHandler { version in
            guard let image = try? TemporaryDirectory() else { return }
            try? source.copy(["highwater", "stalecast.sqlite", "stalecast.sqlite-wal"], to: image)
            images.withLock { $0.append((version.change.sequence, image)) }
        }
        try await store.put(1...30)
        let taken = images.withLock { $0 }
        #expect(taken.count == 30)
        for (sequence, image) in taken {
            let reopened = try TemplateStore.make(image)
            #expect(reopened.head() == sequence)
            #expect(reopened.epoch == store.epoch)
        }
    }
}
