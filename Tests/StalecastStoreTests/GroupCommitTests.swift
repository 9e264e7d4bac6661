import Dispatch
import StalecastStore
import StalecastTemplate
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

/// Publishes that wait for the writer at the same time share a transaction.
@Suite struct GroupCommitTests {
    let directory: TemporaryDirectory
    private var log: String { directory.database + "-wal" }

    init() throws {
        FaultyFileSystem.install()
        directory = try TemporaryDirectory()
    }

    @Test func publishesThatMeetShareASynchronisation() async throws {
        let store = try TemplateStore.make(directory)
        let writer = HeldWriter(store)
        let scopes: [Scope] = [.demo, .demoServer]
        let publishes = try (0..<20).map {
            Publish(scope: scopes[$0 % 2], template: try .greeting("\($0)"), precondition: .any)
        }
        let before = Mutex(0)
        let results = try await writer.together(publishes) {
            before.withLock { $0 = FaultyFileSystem.syncs(log) }
        }
        // One that was late by a moment may have had a transaction of its own.
        #expect(FaultyFileSystem.syncs(log) - before.withLock { $0 } <= 3)
        let versions = try results.map { try $0.get() }
        #expect(versions.map(\.change.sequence).sorted() == Array(2...21))
        #expect(writer.announced == Array(1...21))
        #expect(try await store.numbers(of: .demoServer) == (1...10).reversed())
        store.close()
        #expect(try await TemplateStore.make(directory).numbers() == (1...11).reversed())
    }

    @Test func aRefusedPublishLeavesTheOthersOfItsCommitAlone() async throws {
        let store = try TemplateStore.make(directory)
        let writer = HeldWriter(store)
        let unknown = Scope(project: try ProjectID("unknown"), namespace: .firebase)
        let publishes = [
            Publish(scope: .demo, template: try .greeting("a"), precondition: .any),
            Publish(scope: .demo, template: try .greeting("b"), precondition: .etag("etag-1-77")),
            Publish(scope: unknown, template: try .greeting("c"), precondition: .any),
            Publish(scope: .demoServer, template: try .greeting("d"), precondition: .any),
        ]
        let results = try await writer.together(publishes)
        #expect(try results[0].get().scope == .demo && results[3].get().scope == .demoServer)
        guard case .failure(.versionMismatch) = results[1] else { throw HeldWriter.Unexpected() }
        guard case .failure(.unknownProject) = results[2] else { throw HeldWriter.Unexpected() }
        #expect(store.head() == 3)
        #expect(store.figures.published == 3 && store.figures.mismatched == 1 && store.figures.refused == 1)
    }

    @Test func ofPublishesWithOneETagThatMeetOneIsCommitted() async throws {
        let store = try TemplateStore.make(directory)
        let writer = HeldWriter(store)
        let etag = TemplateETag.of(project: StoreConfiguration.Project.demo.number, version: 1)
        let publishes = try (0..<8).map {
            Publish(scope: .demo, template: try .greeting("\($0)"), precondition: .etag(etag))
        }
        let results = try await writer.together(publishes)
        #expect(results.count { (try? $0.get()) != nil } == 1)
        #expect(try await store.numbers() == [2, 1])
    }

    @Test func aFailedCommitIsUnknownToAllThatShareIt() async throws {
        let store = try TemplateStore.make(directory)
        let writer = HeldWriter(store)
        let publishes = try (0..<5).map {
            Publish(scope: .demo, template: try .greeting("\($0)"), precondition: .any)
        }
        let results = try await writer.together(publishes) { FaultyFileSystem.arm(log, .sync) }
        FaultyFileSystem.disarm(log)
        for result in results {
            guard case .failure(let error) = result else { throw HeldWriter.Unexpected() }
            // One that was late by a moment met a store that had failed.
            if case .unavailable = error { continue }
            #expect(error.isOutcomeUnknown)
        }
        #expect(writer.announced == [1] && store.head() == 1)
        #expect(store.figures.unknownOutcomes >= 1)
    }

    @Test func aFullDiskRefusesAllThatShareACommit() async throws {
        let store = try TemplateStore.make(directory)
        let writer = HeldWriter(store)
        let publishes = try (0..<5).map {
            Publish(scope: .demo, template: try .greeting("\($0)"), precondition: .any)
        }
        let results = try await writer.together(publishes) { FaultyFileSystem.arm(log, .full) }
        FaultyFileSystem.disarm(log)
        for result in results {
            guard case .failure(.diskFull) = result else { throw HeldWriter.Unexpected() }
        }
        #expect(store.figures.refusedForSpace == 5)
        #expect(try await store.put("later").change.sequence == 2)
    }
}

/// A store whose writer is held in the announcement of its first version.
private final class HeldWriter: Sendable {
    struct Unexpected: Error {}

    private let store: TemplateStore
    private let gate = DispatchSemaphore(value: 0)
    private let sequences = Mutex<[CommitSequence]>([])

    /// Sequences in the order of announcements.
    var announced: [CommitSequence] { sequences.withLock { $0 } }

    init(_ store: TemplateStore) {
        self.store = store
        store.setCommitHandler { [self] version in
            sequences.withLock { $0.append(version.change.sequence) }
            if version.change.sequence == 1 { gate.wait() }
        }
    }

    /// Publishes a first version, and all of these while the writer is busy with it.
    ///
    /// - Parameter meanwhile: runs when all wait.
    func together(
        _ publishes: [Publish], meanwhile: () -> Void = {}
    ) async throws -> [Result<StoredVersion, StoreError>] {
        async let first = store.put("first")
        try await eventually { !announced.isEmpty }
        let tasks = publishes.map { publish in
            Task { () -> Result<StoredVersion, StoreError> in
                do throws(StoreError) {
                    return .success(try await store.publish(publish))
                } catch {
                    return .failure(error)
                }
            }
        }
        try await eventually { store.waitingPublishes > publishes.count }
        meanwhile()
        gate.signal()
        _ = try await first
        var results: [Result<StoredVersion, StoreError>] = []
        for task in tasks { results.append(await task.value) }
        return results
    }
}
