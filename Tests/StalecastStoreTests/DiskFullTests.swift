import Foundation
import StalecastStore
import StalecastTemplate
import StalecastTestSupport
import StalecastWire
import Testing

/// A file system of a few megabytes, so that full is really full. Only root may mount one.
struct SmallFileSystem: ~Copyable {
    let path: String

    init(megabytes: Int) throws {
        path = NSTemporaryDirectory() + "stalecast-tmpfs-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        try Self.run("/bin/mount", ["-t", "tmpfs", "-o", "size=\(megabytes)m", "tmpfs", path])
    }

    deinit {
        // What stays mounted costs a few megabytes until the machine restarts.
        try? Self.run("/bin/umount", ["-l", path])
        try? FileManager.default.removeItem(atPath: path)
    }

    static let isPossible: Bool = {
        do { _ = try SmallFileSystem(megabytes: 1) } catch { return false }
        return true
    }()

    private static func run(_ program: String, _ arguments: [String]) throws {
        let process = try Process.run(URL(fileURLWithPath: program), arguments: arguments)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw CocoaError(.fileWriteUnknown) }
    }
}

@Suite(.enabled(if: SmallFileSystem.isPossible, "needs root, to mount a tmpfs of a few megabytes"))
struct DiskFullTests {
    private let ballastBytes = 1 << 20

    @Test(arguments: [Int64(4 << 20), 1 << 16])
    func storeSurvivesAFullDiskAndWorksAgainWhenThereIsSpace(checkpointBytes: Int64) async throws {
        let disk = try SmallFileSystem(megabytes: 4)
        let ballast = disk.path + "/ballast"
        try Data(count: ballastBytes).write(to: URL(fileURLWithPath: ballast))
        var configuration = StoreConfiguration(directory: disk.path + "/data")
        configuration.minFreeBytes = 0
        configuration.checkpointBytes = checkpointBytes
        let store = try TemplateStore.open(configuration)

        let acknowledged = try await publishUntilFull(store)
        #expect(acknowledged > 5)
        guard case .diskFull = await store.health else { throw CocoaError(.fileWriteUnknown) }
        #expect(try await store.current(.demo)?.version == acknowledged)
        #expect(try await store.version(1, of: .demo)?.version == 1)
        #expect(store.head() == CommitSequence(acknowledged.rawValue))

        try FileManager.default.removeItem(atPath: ballast)
        guard await store.health == .ok else { throw CocoaError(.fileWriteUnknown) }
        #expect(try await store.put("small").version == acknowledged + 1)
        let final = try await publishUntilFull(store)
        let epoch = store.epoch
        store.close()

        let reopened = try TemplateStore.open(configuration)
        #expect(reopened.epoch == epoch)
        #expect(try await reopened.numbers() == Array((1...final).reversed()))
    }

    @Test func publishIsRefusedBeforeItsTransactionWhenSpaceRunsLow() async throws {
        let disk = try SmallFileSystem(megabytes: 4)
        var configuration = StoreConfiguration(directory: disk.path + "/data")
        configuration.minFreeBytes = 3 << 20
        let store = try TemplateStore.open(configuration)
        guard await store.health == .ok else { throw CocoaError(.fileWriteUnknown) }
        #expect(try await store.put("one").version == 1)
        let ballast = URL(fileURLWithPath: disk.path + "/ballast")
        try Data(count: ballastBytes).write(to: ballast)
        let health = await store.health
        guard case .diskFull = health else { throw CocoaError(.fileWriteUnknown) }
        #expect(health.description.contains("2 MiB were free then, and store.minFreeSpace asks for 3 MiB"), "\(health)")
        let error = await storeError { try await store.put("two") }
        guard case .diskFull(let sentence) = error else { throw try #require(error) }
        #expect(sentence.contains("2 MiB are free in ") && sentence.contains("store.minFreeSpace asks for 3 MiB"))
        #expect(sentence.contains("nothing was committed"))
        try FileManager.default.removeItem(at: ballast)
        #expect(try await store.put("two").version == 2)
    }

    @Test func backupThatFindsNoSpaceLeavesNothing() async throws {
        let disk = try SmallFileSystem(megabytes: 1)
        let directory = try TemporaryDirectory()
        let store = try TemplateStore.make(directory)
        for _ in 1...20 { try await store.put(String(repeating: "x", count: 100_000)) }
        let error = await storeError { try store.backup(to: disk.path + "/backup") }
        guard case .diskFull = error else { throw try #require(error) }
        #expect(try FileManager.default.contentsOfDirectory(atPath: disk.path) == [])
    }

    @Test func storeThatCannotBeMadeForLackOfSpaceSaysSo() async throws {
        let disk = try SmallFileSystem(megabytes: 1)
        let ballast = URL(fileURLWithPath: disk.path + "/ballast")
        try Data(count: ballastBytes - 8192).write(to: ballast)
        let configuration = StoreConfiguration(directory: disk.path + "/data")
        let error = await storeError { try TemplateStore.open(configuration) }
        guard case .diskFull = error else { throw try #require(error) }
        try FileManager.default.removeItem(at: ballast)
        #expect(try TemplateStore.open(configuration).head() == 0)
    }

    /// - Returns: the newest acknowledged version.
    private func publishUntilFull(_ store: TemplateStore) async throws -> VersionNumber {
        for round in 1...200 {
            let error = await storeError { try await store.put(String(repeating: "\(round % 10)", count: 100_000)) }
            guard let error else { continue }
            guard case .diskFull = error else { throw error }
            return store.currentTemplates[.demo]?.version ?? 0
        }
        throw CocoaError(.fileWriteUnknown)
    }
}
