import StalecastWire

/// State that changes while a store is open; the effects happen outside the lock that guards it.
struct StoreState: Sendable {
    private enum Phase: Sendable {
        case open
        case failed(String)
        case closed
    }

    var commitHandler: (@Sendable (StoredVersion) -> Void)?
    var releaseHandler: (@Sendable (ReleaseStep, StoredVersion) -> Void)?
    var failureHandler: (@Sendable (String) -> Void)?
    var figures = TemplateStore.Figures()
    var clock = ClockWitness()
    var retentionPace = RetentionPace()
    var auditBacklog = AuditBacklog()
    /// Size of the write-ahead log from which the next checkpoint is tried.
    var checkpointAt: Int64
    private(set) var waiting = 0
    private var queued: [QueuedPublish] = []
    private var phase = Phase.open
    private var shortage: Shortage?
    private var isDownloading = false

    private let minFreeBytes: Int64

    init(checkpointBytes: Int64, minFreeBytes: Int64 = 0) {
        checkpointAt = checkpointBytes
        self.minFreeBytes = minFreeBytes
    }

    var failure: String? { if case .failed(let reason) = phase { reason } else { nil } }

    /// nil while publishes may begin.
    var refusal: StoreError? {
        switch phase {
        case .open: nil
        case .closed: .unavailable("the store is closing; nothing was committed; try again after the restart")
        case .failed: .unavailable("the store stopped committing after an I/O error; nothing was committed")
        }
    }

    /// Takes a place in the writer's queue.
    mutating func admit(atMost limit: Int) -> StoreError? {
        if let refusal { return refusal }
        guard waiting < limit else {
            return .unavailable("\(waiting) publishes are waiting already; nothing was committed; try again")
        }
        waiting += 1
        return nil
    }

    mutating func leave() { waiting -= 1 }

    /// False while there is another ``BackupDownload``.
    mutating func beginDownload() -> Bool {
        if isDownloading { return false }
        isDownloading = true
        return true
    }

    mutating func endDownload() { isDownloading = false }

    /// - Returns: whether the writer has to be told: nothing waited for it.
    mutating func queue(_ publish: QueuedPublish) -> Bool {
        defer { queued.append(publish) }
        return queued.isEmpty
    }

    /// Takes those that came first. The caller tells the writer when there are more.
    mutating func takeQueued(atMost limit: Int) -> (taken: [QueuedPublish], hasMore: Bool) {
        defer { queued.removeFirst(min(limit, queued.count)) }
        return (Array(queued.prefix(limit)), queued.count > limit)
    }

    func health() -> StoreHealth {
        switch phase {
        case .failed(let reason): .failed(reason: reason)
        case .closed: .closed
        case .open:
            shortage.map { .diskFull(since: $0.since, free: $0.freeThen, required: minFreeBytes) } ?? .ok
        }
    }

    /// Takes in what was measured or met.
    ///
    /// - Returns: true when this changed whether the disk counts as full.
    mutating func noteSpace(_ space: Space, now: Timestamp) -> Bool {
        switch space {
        case .short(let free) where shortage == nil:
            shortage = Shortage(since: now, freeThen: free)
            return true
        case .short: return false
        case .measured(let free, let required):
            guard let shortage, free >= max(required, shortage.freeThen + Self.noticeableSpace) else { return false }
            self.shortage = nil
            return true
        case .enough:
            defer { shortage = nil }
            return shortage != nil
        }
    }

    /// Report about space on the disk.
    enum Space: Sendable {
        /// A write found none, or there is less than required; `free` bytes were there.
        case short(free: Int64)
        /// `free` bytes are there, and no write has been tried.
        case measured(free: Int64, required: Int64)
        /// A commit got through.
        case enough
    }

    /// A quota can stop writes while the file system has space; then only more space than there was is good news.
    private struct Shortage: Sendable {
        let since: Timestamp
        let freeThen: Int64
    }

    /// Change in bytes that is worth a report; smaller ones are the file system's own coming and going.
    private static let noticeableSpace: Int64 = 128 << 10

    /// Counts a durable commit.
    mutating func committed(isRollback: Bool, removed: Int, took: Duration) {
        figures.commits.record(seconds: took / .seconds(1))
        figures.removed += UInt64(removed)
        if isRollback { figures.rolledBack += 1 } else { figures.published += 1 }
    }

    /// - Returns: the handler to tell, on the first failure only.
    mutating func fail(_ reason: String) -> (isFirst: Bool, handler: (@Sendable (String) -> Void)?) {
        guard case .open = phase else { return (false, nil) }
        phase = .failed(reason)
        return (true, failureHandler)
    }

    /// - Returns: false when it was closed before.
    mutating func close() -> Bool {
        if case .closed = phase { return false }
        phase = .closed
        return true
    }
}
