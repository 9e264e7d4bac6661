import StalecastCluster
import StalecastRecords
import StalecastStore
import StalecastTemplate
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

/// A node that follows, and its store.
final class Running: Sendable {
    let node: ClusterNode
    let store: TemplateStore
    let reports = Reports()
    /// The node's clocks go so much ahead.
    let later = Later()
    private let directory: TemporaryDirectory
    private let following: Task<Void, Never>

    /// - Parameters:
    ///   - directory: of a node that ended; nil: it is new.
    ///   - isEdge: true for a node that only follows.
    init(
        _ name: String, _ log: SharedMemoryLog, in directory: TemporaryDirectory? = nil, maxVersions: Int = 300,
        isEdge: Bool = false
    ) async throws {
        let directory = try directory ?? TemporaryDirectory()
        self.directory = directory
        var configuration = StoreConfiguration(directory: directory.path)
        configuration.minFreeBytes = 0
        configuration.maxVersionsPerScope = maxVersions
        configuration.now = { [later] in
            Timestamp(microseconds: Timestamp.now().microseconds + later.time.withLock { Int64($0 / .microseconds(1)) })
        }
        configuration.replica = .init(epoch: log.state.withLock(\.logMetadata.epoch))
        let store = try TemplateStore.open(configuration)
        if try !store.replicaState().isWhole { #expect(try await ClusterNode.fill(store, from: log)) }
        let clock = ContinuousClock()
        let start = clock.now
        let node = try ClusterNode(
            // Slower than time: on a busy machine publishes would not be done within the ten seconds they have.
            log, store, name: name, now: { [later] in (clock.now - start) / 8 + later.time.withLock { $0 } },
            // Other tests may keep the pool's threads for longer than a reader should wait in production.
            patience: { .seconds(60) }, isEdge: isEdge,
            report: { [reports] in reports.add($0) })
        if isEdge { store.setAuthority(EdgeAuthority(node)) } else { store.setAuthority(node) }
        (self.store, self.node) = (store, node)
        following = Task { await node.run() }
    }

    deinit { following.cancel() }

    func end() async {
        following.cancel()
        await following.value
    }

    /// Ends the node in the step in which it reports this.
    func ends(at report: ClusterNode.Report) { reports.last.withLock { $0 = (report, following) } }

    /// Restarts the node over the same store.
    func restarted(_ log: SharedMemoryLog, meanwhile: () async throws -> Void = {}) async throws -> Running {
        await end()
        store.close()
        try await meanwhile()
        return try await Running(node.name, log, in: directory)
    }

    /// One attempt, with any outcome.
    func published(_ value: String) async -> Result<StoredVersion, StoreError> {
        guard let template = try? Template.greeting(value, .client) else {
            return .failure(.unavailable("no template"))
        }
        return await published(Publish(scope: .shared, template: template, precondition: .any))
    }

    private func published(_ publish: Publish) async -> Result<StoredVersion, StoreError> {
        do throws(StoreError) { return .success(try await store.publish(publish)) } catch { return .failure(error) }
    }

    func put(_ value: String, _ precondition: Publish.Precondition = .any, key: String? = nil, scope: Scope = .shared)
        async throws -> StoredVersion
    {
        let template = try Template.greeting(value, scope.namespace == .firebase ? .client : .server)
        var publish = Publish(scope: scope, template: template, precondition: precondition)
        publish.idempotencyKey = key
        let begun = publish
        return try await untilBegun { () throws(StoreError) in try await store.publish(begun) }
    }

    func rollback(to target: VersionNumber, key: String) async throws -> StoredVersion {
        try await untilBegun { () throws(StoreError) in
            try await store.rollback(.shared, to: target, idempotencyKey: key)
        }
    }

    /// Repeats an attempt that was not begun in time, which says so: the machine may be busy elsewhere.
    private func untilBegun(
        _ attempt: () async throws(StoreError) -> StoredVersion
    ) async throws(StoreError) -> StoredVersion {
        while true {
            do throws(StoreError) { return try await attempt() } catch {
                guard case .unavailable = error else { throw error }
            }
        }
    }
}

final class Later: Sendable {
    let time = Mutex(Duration.zero)
}

final class Reports: Sendable {
    private let all = Mutex<[ClusterNode.Report]>([])

    func contains(_ report: ClusterNode.Report) -> Bool { all.withLock { $0.contains(report) } }

    func contains(_ isWanted: (ClusterNode.Report) -> Bool) -> Bool { all.withLock { $0.contains(where: isWanted) } }

    /// Report with which a task is cancelled.
    let last = Mutex<(report: ClusterNode.Report, task: Task<Void, Never>)?>(nil)

    func add(_ report: ClusterNode.Report) {
        all.withLock { $0.append(report) }
        last.withLock { if let last = $0, last.report == report { last.task.cancel() } }
    }
}

/// The log of the simulation, as nodes ask for it.
final class SharedMemoryLog: SharedLog {
    let state = Mutex(MemoryLog(epoch: .random()))
    /// Read once instead of what is there.
    let stale = Mutex<LogPage?>(nil)
    /// Changes of the log metadata in which another node is first.
    let rivals = Mutex(0)
    /// Appends are done, and no answer comes.
    let silence = Mutex(false)
    /// Node whose appends fail; nil: none.
    let cut = Mutex<String?>(nil)
    /// Pages that are read before reads fail; nil: they do not.
    let pagesLeft = Mutex<Int?>(nil)
    /// Calls hang until their caller is cancelled, as with an etcd that is far away; nil: they do not.
    let hanging = Mutex<Int?>(nil)
    private let watchEvents = Mutex<[AsyncStream<WatchEvent>.Continuation]>([])

    private func hang() async throws(LogError) {
        let hangs = hanging.withLock { calls in
            calls = calls.map { $0 + 1 }
            return calls != nil
        }
        guard hangs else { return }
        // Cancelled: the call ends.
        await untilCancelled()
        hanging.withLock { $0 = $0.map { $0 - 1 } }
        throw .unknown("cancelled")
    }

    func page(after sequence: CommitSequence, limit: Int) async throws(LogError) -> LogPage {
        try await hang()
        let isCut = pagesLeft.withLock { left in
            left = left.map { $0 - 1 }
            return left ?? 0 < 0
        }
        if isCut { throw .notDone("the line is cut") }
        let stale = stale.withLock { $0.take() }
        return stale ?? state.withLock { $0.page(after: sequence, limit: limit) }
    }

    func append(
        _ entry: LogEntry, under logMetadata: LogMetadata, owner: AssignmentOwner?
    ) async throws(LogError) -> Appended {
        try await hang()
        if cut.withLock({ $0 }) == entry.node { throw .notDone("the line is cut") }
        let appended = state.withLock {
            $0.append(entry, under: logMetadata, owner: owner, at: .zero, MemoryLog.Comparisons())
        }
        if silence.withLock({ $0 }) { throw .unknown("silence") }
        if case .committed = appended { ring(.entry(entry)) }
        return appended
    }

    /// Pieces by digest, and when they were stored.
    private let pieces = Mutex<[String: (chunks: [[UInt8]], revision: Int64)]>([:])

    func store(_ chunks: [[UInt8]], of key: ContentKey) async throws(LogError) { put(chunks, key.digest) }

    func put(_ chunks: [[UInt8]], _ digest: String) {
        pieces.withLock { $0[digest] = (chunks, 1 + ($0.values.map(\.revision).max() ?? 0)) }
    }

    func contents() async throws(LogError) -> [StoredContent] {
        pieces.withLock { $0.map { StoredContent(digest: $0.key, revisions: ["all": $0.value.revision]) } }
    }

    func remove(_ content: StoredContent, at head: LogHead) async throws(LogError) -> Bool {
        pieces.withLock { pieces in
            guard pieces[content.digest]?.revision == content.revisions["all"], state.withLock(\.head) == head else {
                return false
            }
            pieces[content.digest] = nil
            return true
        }
    }

    func isCurrent(_ head: LogHead, under logMetadata: LogMetadata) async throws(LogError) -> Bool {
        try await hang()
        return state.withLock { $0.isCurrent(head, under: logMetadata) }
    }

    func content(of entry: LogEntry) async throws(LogError) -> [UInt8] {
        switch entry.content {
        case .inline(let content): return content
        case .absent: return []
        case .beside(let key):
            let chunks = pieces.withLock { $0[key.digest]?.chunks }
            return try LogEntry.content(key, from: chunks ?? [])
        }
    }

    func amend(_ old: LogMetadata?, to new: LogMetadata, at head: LogHead?) async throws(LogError) -> LogMetadata {
        if rivals.withLock({ left in
            left -= 1
            return left >= 0
        }) {
            state.withLock { state in
                var logMetadata = state.logMetadata
                logMetadata.prunedBelow += 1
                _ = state.amend(state.logMetadata, to: logMetadata)
            }
        }
        let logMetadata = state.withLock { state in old.map { state.amend($0, to: new, at: head) } ?? state.logMetadata
        }
        ring(.other)
        return logMetadata
    }

    func prune(_ sequences: [CommitSequence], under old: LogMetadata, to new: LogMetadata) async throws(LogError)
        -> Bool
    {
        let isDone = state.withLock { $0.prune(sequences, under: old, to: new) }
        if isDone { ring(.other) }
        return isDone
    }

    func watch() async throws(LogError) -> AsyncStream<WatchEvent> {
        let (stream, continuation) = AsyncStream.makeStream(of: WatchEvent.self)
        watchEvents.withLock { $0.append(continuation) }
        continuation.yield(.opened)
        return stream
    }

    private func ring(_ watchEvent: WatchEvent) {
        for continuation in watchEvents.withLock({ $0 }) { continuation.yield(watchEvent) }
    }
}

extension Scope {
    static let shared = Scope(project: StoreConfiguration.Project.demo.id, namespace: .firebase)
    static let quiet = Scope(project: StoreConfiguration.Project.demo.id, namespace: .firebaseServer)
}

extension Template {
    static func greeting(_ value: String, _ kind: TemplateKind) throws -> Template {
        try Template(
            validating: ["parameters": ["greeting": ["defaultValue": ["value": .string(value)]]]], kind: kind)
    }
}
