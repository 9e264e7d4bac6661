import Glibc
import StalecastStore
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

/// A publish that runs on the writer's own queue, from its request to its answer.
@Suite struct WriterQueueTests {
    let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    @Test func onePublishHasTheQueueAtATime() throws {
        let store = try TemplateStore.make(directory)
        let writer = try #require(store.takeIdleWriter())
        #expect(store.takeIdleWriter() == nil)
        writer.leave()
        #expect(store.takeIdleWriter() != nil)
        writer.leave()
        store.close()
        #expect(store.takeIdleWriter() == nil)
    }

    @Test func theWriterIsNotIdleDuringACommit() async throws {
        let store = try TemplateStore.make(directory)
        let found = Mutex<[WriterQueue?]>([])
        store.setCommitHandler { _ in found.withLock { $0.append(store.takeIdleWriter()) } }
        try await store.put("one")
        #expect(found.withLock { $0.count == 1 && $0[0] == nil })
    }

    @Test func publishesOnTheQueueAndBesideItAreAllCommitted() async throws {
        var configuration = StoreConfiguration.make(directory)
        configuration.checkpointBytes = 64 << 10
        let store = try TemplateStore.open(configuration)
        let onQueue = try await withThrowingTaskGroup(of: Int.self) { group in
            for publisher in 0..<8 { group.addTask { try await publish(20, of: publisher, to: store) } }
            return try await group.reduce(0, +)
        }
        #expect(onQueue > 0)
        #expect(try await store.numbers() == (1...160).reversed())
        store.close()
        #expect(try await TemplateStore.make(directory).numbers() == (1...160).reversed())
    }

    /// A checkpoint takes its turn though the next publish is there before it.
    @Test(arguments: [1, 8])
    func theLogStaysShortWhilePublishesNeverPause(publishers: Int) async throws {
        var configuration = StoreConfiguration.make(directory)
        configuration.checkpointBytes = 64 << 10
        let store = try TemplateStore.open(configuration)
        let log = directory.database + "-wal"
        let longest = Atomic<Int64>(0)
        store.setCommitHandler { _ in _ = longest.max(size(log), ordering: .relaxed) }
        try await withThrowingTaskGroup(of: Int.self) { group in
            for publisher in 0..<publishers {
                group.addTask { try await publish(200, of: publisher, to: store) }
            }
            try await group.waitForAll()
        }
        // Without a checkpoint the log of 200 commits has more than 4 MB.
        #expect((1..<1 << 20).contains(longest.load(ordering: .relaxed)))
    }
}

/// Bytes of a file; 0 when there is none.
private func size(_ path: String) -> Int64 {
    var status = stat()
    return stat(path, &status) == 0 ? Int64(status.st_size) : 0
}

/// Publishes one after the other, each on the writer's queue if it is free.
///
/// - Returns: how many ran there.
private func publish(_ count: Int, of publisher: Int, to store: TemplateStore) async throws -> Int {
    var onQueue = 0
    for value in 0..<count {
        let writer = store.takeIdleWriter()
        let task = Task(executorPreference: writer) {
            defer { writer?.leave() }
            return try await store.put("\(publisher) \(value)")
        }
        let version = try await task.value
        #expect(try await store.version(version.version, of: .demo) == version)
        if writer != nil { onQueue += 1 }
    }
    return onQueue
}
