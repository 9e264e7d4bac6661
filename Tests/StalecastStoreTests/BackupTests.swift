import Foundation
import StalecastStore
import StalecastWire
import Testing

@Suite struct BackupTests {
    let directory = try! TemporaryDirectory()
    let shelf = try! TemporaryDirectory()
    let log = Notices()

    @Test func backupUnderPublishesIsOneConsistentState() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put(1...20)
        let publisher = Task { try await store.put(21...200) }
        try store.backup(to: shelf.file("backup"))
        try await publisher.value
        #expect(try FileManager.default.contentsOfDirectory(atPath: shelf.path) == ["backup"])

        let restored = try TemporaryDirectory()
        try TemplateStore.restore(from: shelf.file("backup"), to: restored.path)
        let copy = try TemplateStore.make(restored)
        let count = VersionNumber(copy.head())
        #expect((20...200).contains(count))
        #expect(try await copy.numbers() == Array((1...count).reversed()))
        #expect(try await copy.version(20, of: .demo) == store.version(20, of: .demo))
    }

    @Test func backupIsForItsOwnerOnly() async throws {
        try TemplateStore.make(directory).backup(to: shelf.file("backup"))
        let attributes = try FileManager.default.attributesOfItem(atPath: shelf.file("backup"))
        #expect(attributes[.posixPermissions] as? Int == 0o600)
    }

    @Test func backupOfAStoreNobodyHasOpenWorks() async throws {
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

    @Test func failedBackupLeavesNothing() throws {
        let store = try TemplateStore.make(directory)
        #expect(throws: StoreError.self) { try store.backup(to: shelf.file("no/such/place")) }
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

        try TemplateStore.restore(from: shelf.file("backup"), to: crashed.path)
        let restored = try TemplateStore.make(crashed, log: log)
        #expect(restored.epoch != store.epoch)
        #expect(try await restored.numbers() == [3, 2, 1])
        #expect(log.all.isEmpty)
        #expect(try await restored.put("other").version == 4)

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
        try TemplateStore.restore(from: shelf.file("backup"), to: directory.path)
        let first = try TemplateStore.make(directory)
        first.close()
        try TemplateStore.restore(from: shelf.file("backup"), to: directory.path)
        #expect(Set([store.epoch, first.epoch, try TemplateStore.make(directory).epoch]).count == 3)
    }

    @Test func directoryInUseIsNotRestoredInto() async throws {
        let store = try TemplateStore.make(directory)
        try await store.put("1")
        try store.backup(to: shelf.file("backup"))
        try await store.put("2")
        let error = #expect(throws: StoreError.self) {
            try TemplateStore.restore(from: shelf.file("backup"), to: directory.path)
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
            #expect(throws: StoreError.self) { try TemplateStore.restore(from: shelf.file(name), to: directory.path) }
        }
        #expect(try directory.bytes("stalecast.sqlite") == before)
        #expect(try TemplateStore.make(directory).epoch == store.epoch)
    }
}
