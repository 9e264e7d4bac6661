import Foundation
import StalecastStore
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

/// Faults of the disk, injected below SQLite.
@Suite struct FaultTests {
    let directory: TemporaryDirectory
    var log: String { directory.database + "-wal" }

    init() throws {
        FaultyFileSystem.install()
        directory = try TemporaryDirectory()
    }

    @Test(arguments: ["removed", "replaced"])
    func aDatabaseThatIsGoneTakesNoMoreVersions(how: String) async throws {
        let store = try TemplateStore.make(directory)
        _ = try await store.put("one")
        try FileManager.default.moveItem(atPath: directory.database, toPath: directory.database + ".old")
        if how == "replaced" {
            try FileManager.default.copyItem(atPath: directory.database + ".old", toPath: directory.database)
        }
        let error = await storeError { try await store.put("two") }
        guard case .unavailable(let sentence) = error else { throw try #require(error) }
        #expect(sentence.hasSuffix("stalecast.sqlite was \(how) while the daemon runs; nothing was committed"))
        guard case .failed = await store.health else { throw try #require(error) }
    }

    /// The restored files are in place by then: the next start must find them as a restore leaves them.
    @Test func aRestoredStoreThatFindsNoSpaceHasItsMarkAndItsOwner() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...2)
        let backup = directory.file("backup")
        try store.backup(to: backup)
        store.close()
        let isRoot = chown(directory.path, 65534, 65534) == 0
        FaultyFileSystem.arm(log, .full)
        let error = await storeError { try TemplateStore.restore(from: backup, to: directory.path) }
        guard case .diskFull(let sentence) = error else { throw try #require(error) }
        #expect(sentence.contains("was put in") && sentence.contains("before-restore"))
        FaultyFileSystem.disarm(log)
        let owner = try FileManager.default.attributesOfItem(atPath: directory.database)[.ownerAccountID] as? Int
        #expect(!isRoot || owner == 65534)
        let lines = LogLines()
        let restored = try TemplateStore.make(directory, log: lines)
        #expect(restored.epoch != store.epoch && lines.all.isEmpty, "its mark is its own: \(lines.all)")
    }

    @Test(arguments: [FaultyFileSystem.Fault.sync, .write])
    func failedCommitHasUnknownOutcomeAndStopsTheStore(fault: FaultyFileSystem.Fault) async throws {
        let store = try TemplateStore.make(directory)
        let announced = Mutex(0)
        let failures = Mutex<[String]>([])
        store.setCommitHandler { _ in announced.withLock { $0 += 1 } }
        store.setFailureHandler { reason in failures.withLock { $0.append(reason) } }
        let first = try await store.put("one")

        FaultyFileSystem.arm(log, fault)
        let error = await storeError { try await store.put("two") }
        #expect(error?.isOutcomeUnknown == true)
        FaultyFileSystem.disarm(log)

        let later = await storeError { try await store.put("three") }
        guard case .unavailable = later else { throw try #require(later) }
        guard case .failed = await store.health else { throw try #require(later) }
        #expect(failures.withLock { $0.count } == 1)
        #expect(announced.withLock { $0 } == 1)
        #expect(try await store.current(.demo) == first)
        #expect(try await store.numbers() == [1])
        #expect(store.figures.unknownOutcomes == 1)

        store.close()
        let reopened = try TemplateStore.make(directory)
        #expect(reopened.epoch == store.epoch)
        #expect(try await reopened.version(1, of: .demo) == first)
        #expect([[1], [2, 1]].contains(try await reopened.numbers()))
        guard await reopened.health == .ok else { throw CocoaError(.fileWriteUnknown) }
    }

    @Test func openingReadsNoByteOfTheStoreMoreThanThreeTimes() async throws {
        let store = try TemplateStore.make(directory)
        for value in 1...100 { try await store.put(String(repeating: "\(value % 10)", count: 10_000)) }
        let image = try TemporaryDirectory()
        try directory.copy(["stalecast.sqlite", "stalecast.sqlite-wal", "highwater"], to: image)
        let (database, log) = (try image.bytes("stalecast.sqlite").count, try image.bytes("stalecast.sqlite-wal").count)
        let opened = try TemplateStore.make(image)
        #expect(FaultyFileSystem.bytesRead(image.database) > database / 2)
        #expect(FaultyFileSystem.bytesRead(image.database) < 3 * database)
        #expect(FaultyFileSystem.bytesRead(image.database + "-wal") < 3 * log)
        #expect(opened.head() == 100)
    }

    @Test func failureHandlerSetLateHearsOfTheFailureAtOnce() async throws {
        let store = try TemplateStore.make(directory)
        FaultyFileSystem.arm(log, .sync)
        _ = await storeError { try await store.put("one") }
        FaultyFileSystem.disarm(log)
        let failures = Mutex(0)
        store.setFailureHandler { _ in failures.withLock { $0 += 1 } }
        #expect(failures.withLock { $0 } == 1)
    }

    @Test func fullDiskIsCertainlyNotCommittedAndPasses() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put("one")
        FaultyFileSystem.arm(log, .full)
        let error = await storeError { try await store.put("two") }
        guard case .diskFull = error else { throw try #require(error) }
        // Not its health: that is well again as soon as the real disk gains space, which other tests may give it.
        #expect(store.figures.refusedForSpace == 1)
        #expect(try await store.numbers() == [1])
        FaultyFileSystem.disarm(log)
        #expect(try await store.put("two again").version == 2)
        guard await store.health == .ok else { throw CocoaError(.fileWriteUnknown) }
        store.close()
        #expect(try await TemplateStore.make(directory).current(.demo)?.template.greeting == "two again")
    }

    @Test func publishIsAcknowledgedThoughTheCheckpointFindsNoSpace() async throws {
        let store = try storeThatAlwaysCheckpoints()
        FaultyFileSystem.arm(directory.database, .full)
        // The checkpoint after a publish is over when the next one begins.
        try await store.put(1...3)
        #expect(store.figures.failedCheckpoints > 0)
        let acknowledged = try await store.numbers()
        FaultyFileSystem.disarm(directory.database)
        let image = try TemporaryDirectory()
        try directory.copy(["stalecast.sqlite", "stalecast.sqlite-wal"], to: image)
        #expect(try await TemplateStore.make(image).numbers() == acknowledged)
        try await store.put("last")
        guard await store.health == .ok else { throw CocoaError(.fileWriteUnknown) }
    }

    @Test func failedSynchronisationInACheckpointStopsTheStoreAfterTheAcknowledgement() async throws {
        let store = try storeThatAlwaysCheckpoints()
        let (failures, failed) = AsyncStream.makeStream(of: String.self, bufferingPolicy: .bufferingNewest(1))
        store.setFailureHandler { failed.yield($0) }
        let database = directory.database
        store.setCommitHandler { _ in FaultyFileSystem.arm(database, .sync) }
        #expect(try await store.put("one").version == 1)
        for await reason in failures {
            #expect(reason.contains("written back"))
            break
        }
        FaultyFileSystem.disarm(directory.database)
        guard case .failed = await store.health else { throw try #require(nil as StoreError?) }
        store.close()
        #expect(try await TemplateStore.make(directory).numbers() == [1])
    }

    @Test func everyAcknowledgedVersionSurvivesAPowerCut() async throws {
        var configuration = StoreConfiguration.make(directory)
        configuration.checkpointBytes = 64 << 10
        let store = try TemplateStore.open(configuration)
        let mark = try directory.bytes("highwater")
        for value in 1...60 {
            try await store.put(String(repeating: "\(value) ", count: 1000))
            guard value % 3 == 0 else { continue }
            let image = try TemporaryDirectory()
            for name in ["stalecast.sqlite", "stalecast.sqlite-wal"] {
                try image.write(Data(FaultyFileSystem.afterPowerCut(directory.file(name)) ?? []), to: name)
            }
            try image.write(mark, to: "highwater")
            let reopened = try TemplateStore.make(image)
            #expect(reopened.epoch == store.epoch)
            #expect(try await reopened.numbers() == store.numbers())
            #expect(try await reopened.current(.demo) == store.current(.demo))
        }
        #expect(FaultyFileSystem.syncs(directory.database) > 3)
        #expect(FaultyFileSystem.syncs(log) >= 60)
    }

    @Test func aPublishWritesIntoTheLogOnce() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...3)
        let (writes, syncs) = (FaultyFileSystem.writes(log), FaultyFileSystem.syncs(log))
        try await store.put("4")
        #expect(FaultyFileSystem.writes(log) == writes + 1)
        #expect(FaultyFileSystem.syncs(log) == syncs + 1)
    }

    @Test func aVersionThatTakesSeveralWritesSurvivesAPowerCut() async throws {
        let store = try TemplateStore.make(directory)
        let mark = try directory.bytes("highwater")
        for letter in ["a", "b"] { try await store.put(String(repeating: letter, count: 900_000)) }
        #expect(FaultyFileSystem.writes(log) > 20)
        let image = try TemporaryDirectory()
        for name in ["stalecast.sqlite", "stalecast.sqlite-wal"] {
            try image.write(Data(FaultyFileSystem.afterPowerCut(directory.file(name)) ?? []), to: name)
        }
        try image.write(mark, to: "highwater")
        let reopened = try TemplateStore.make(image)
        for number in [1, 2] as [VersionNumber] {
            #expect(try await reopened.version(number, of: .demo) == store.version(number, of: .demo))
        }
    }

    private func storeThatAlwaysCheckpoints() throws -> TemplateStore {
        var configuration = StoreConfiguration.make(directory)
        configuration.checkpointBytes = 1
        return try TemplateStore.open(configuration)
    }
}
