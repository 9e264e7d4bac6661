import StalecastCluster
import StalecastRecords
import StalecastStore
import StalecastTemplate
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

/// Stores of their own that a log goes on with.
@Suite(.timeLimit(.minutes(5))) struct StoreHistoryTests {
    private func store(_ directory: TemporaryDirectory, maxVersions: Int = 300) throws -> TemplateStore {
        var configuration = StoreConfiguration(directory: directory.path)
        configuration.minFreeBytes = 0
        configuration.maxVersionsPerScope = maxVersions
        return try TemplateStore.open(configuration)
    }

    private func publish(_ value: String, to store: TemplateStore, isStaged: Bool = false) async throws {
        var publish = Publish(
            scope: .shared, template: try Template.greeting(value, .client), precondition: .any)
        if isStaged {
            let policy = try ReleasePolicy(json: ["stages": ["10%", "50%", "100%"], "every": "0s"])
            publish.staged = Publish.Staged(policy, by: "test")
        }
        _ = try await store.publish(publish)
    }

    private func laid(_ history: StoreHistory) async throws -> (entries: [LogEntry], count: Int, LogMetadata) {
        let entries = Mutex<[LogEntry]>([])
        let (count, logMetadata) = try await history.lay(progress: { _, _ in }) { entry, chunks in
            #expect(chunks.isEmpty)
            entries.withLock { $0.append(entry) }
        }
        return (entries.withLock { $0.sorted { $0.sequence < $1.sequence } }, count, logMetadata)
    }

    @Test func aReplicaOfTheLogHasWhatTheStoreHas() async throws {
        let directory = try TemporaryDirectory()
        let store = try store(directory)
        defer { store.close() }
        for value in ["1", "2", "3"] { try await publish(value, to: store) }
        try await publish("4", to: store, isStaged: true)
        _ = try await store.change(releaseOf: .shared, .advance, ReleaseDecision(by: "test"))
        let history = try StoreHistory(of: store, node: "a")
        let (entries, count, logMetadata) = try await laid(history)
        #expect(count == 4 && entries.map(\.sequence) == [1, 2, 3, 4, 5])
        #expect(logMetadata.epoch == store.epoch && logMetadata.prunedBelow == 1)
        let log = SharedMemoryLog()
        log.state.withLock { state in
            state = MemoryLog(epoch: store.epoch)
            for entry in entries {
                _ = state.append(entry, under: state.logMetadata, at: .zero, MemoryLog.Comparisons())
            }
        }
        #expect(log.state.withLock(\.head) == history.head)
        let replica = try await Running("b", log)
        #expect(replica.store.head() == store.head())
        #expect(replica.store.release(of: .shared) == store.release(of: .shared))
        for number in 1...4 {
            let (here, there) = (
                try await store.version(VersionNumber(clamping: number), of: .shared),
                try await replica.store.version(VersionNumber(clamping: number), of: .shared)
            )
            #expect(here?.content == there?.content && here?.etag == there?.etag && here != nil)
        }
        await replica.end()
    }

    @Test func whatRetentionRemovedIsNoPartOfIt() async throws {
        let directory = try TemporaryDirectory()
        let store = try store(directory, maxVersions: 2)
        defer { store.close() }
        for value in 1...5 { try await publish("\(value)", to: store) }
        let (entries, count, logMetadata) = try await laid(try StoreHistory(of: store, node: "a"))
        #expect(count == 2 && entries.map(\.sequence) == [4, 5] && logMetadata.prunedBelow == 4)
        #expect(entries.first?.previous.sequence == 3)
    }

    @Test func anEmptyStoreBeginsAnEmptyLog() async throws {
        let directory = try TemporaryDirectory()
        let store = try store(directory)
        defer { store.close() }
        let history = try StoreHistory(of: store, node: "a")
        let (entries, count, logMetadata) = try await laid(history)
        #expect(entries.isEmpty && count == 0 && logMetadata.prunedBelow == 1 && history.head == .empty)
    }
}
