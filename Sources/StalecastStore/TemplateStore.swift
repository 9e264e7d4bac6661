import Dispatch
import GRDB
package import StalecastWire
import Synchronization

/// The durable versions of every scope, in one SQLite database with one writer.
///
/// A publish passes three steps, and each waits for the one before: the version is durable (committed with
/// `synchronous=FULL`), then visible in ``currentTemplates``, then announced through the commit handler. All three
/// happen on the writer's queue, so commits are announced in the order of their sequence.
package final class TemplateStore: Sendable {
    /// The identity of this history; cursors of another epoch mean nothing here.
    package let epoch: Epoch
    /// True when this start found an older or another database than was served, and gave it a new epoch.
    package let beganAnew: Bool
    package let projects: ProjectTable
    /// The newest version of every scope, without asking the database.
    package let currentTemplates: CurrentTemplates

    let configuration: StoreConfiguration
    let files: StoreFiles
    let connection: StoreConnection
    let mark: HighWaterMark
    let state: Mutex<StoreState>
    /// Floors as stored at the start. Only those of a replica are raised later, and it reads them from the database.
    let floors: NumberFloors
    private let terms: Mutex<Terms>
    let proposalNotes = Mutex(ProposalNotes())
    /// The newest release of each scope. The writer is the only one to change it, after the commit.
    let releases: Mutex<[Scope: Release]>
    let log: StoreLog
    private let spaceQueue = DispatchQueue(label: "stalecast.store.space")

    init(_ parts: Parts, configuration: StoreConfiguration, log: StoreLog) {
        self.configuration = configuration
        self.log = log
        epoch = parts.epoch
        beganAnew = parts.beganAnew
        projects = parts.projects
        currentTemplates = parts.currentTemplates
        releases = Mutex(parts.releases)
        files = StoreFiles(parts.directory, parts.lock)
        connection = parts.connection
        mark = parts.mark
        let retention = Retention(maxVersions: configuration.maxVersionsPerScope, maxAge: configuration.maxVersionAge)
        floors = parts.floors
        terms = Mutex(Terms(retention: retention))
        state = Mutex(
            StoreState(checkpointBytes: configuration.checkpointBytes, minFreeBytes: configuration.minFreeBytes))
    }

    var directory: DataDirectory { files.directory }
    var database: DatabasePool { connection.pool }

    /// Terms that change while the store is open. What is nil of a cluster's parts this store does by itself.
    private struct Terms: Sendable {
        /// Rule for versions that may go.
        var retention: Retention
        var authority: (any VersionAuthority)?
        var proposals: SharedProposals?
    }

    var authority: (any VersionAuthority)? { terms.withLock(\.authority) }

    /// Sets the authority that orders publishes from now on. Set it once, before the first publish.
    package func setAuthority(_ authority: any VersionAuthority) {
        terms.withLock {
            precondition($0.authority == nil, "the authority is set once")
            $0.authority = authority
        }
    }

    /// Proposals of all nodes of a cluster; nil: this store keeps its own, and an approval and its version are one
    /// transaction.
    var sharedProposals: SharedProposals? { terms.withLock(\.proposals) }

    /// Makes the proposals, from now on, those of all nodes.
    package func share(_ proposals: SharedProposals) { terms.withLock { $0.proposals = proposals } }

    /// Rule for versions that may go, as of now.
    var retention: Retention { terms.withLock(\.retention) }

    /// Changes what is kept, from the next publish or sweep on. See ``StoreConfiguration/maxVersionsPerScope``.
    package func setRetention(maxVersions: Int, maxAge: Duration) {
        terms.withLock { $0.retention = Retention(maxVersions: maxVersions, maxAge: maxAge) }
    }

    /// The sequence of the newest visible commit; 0 while nothing was published.
    package func head() -> CommitSequence { currentTemplates.head }

    /// Sets the receiver of every commit: called on the writer's queue when the version is durable and visible, in
    /// sequence order, before the next publish begins. Set it once, before the first publish. It must be quick and must
    /// not call back into the store's database; ``currentTemplates`` is free to use.
    package func setCommitHandler(_ handler: @escaping @Sendable (StoredVersion) -> Void) {
        state.withLock {
            precondition($0.commitHandler == nil, "the commit handler is set once")
            $0.commitHandler = handler
        }
    }

    /// Sets the receiver of the report, sent once, that the store has failed and the process should exit non-zero; the
    /// argument is the reason, for the log. Called at once when it has failed already.
    package func setFailureHandler(_ handler: @escaping @Sendable (String) -> Void) {
        let reason = state.withLock { state -> String? in
            state.failureHandler = handler
            return state.failure
        }
        if let reason { handler(reason) }
    }

    /// Whether a publish could be committed now. Looks at the free space, so a full disk that has been emptied counts
    /// as good again; on a queue of its own, since a file system that hangs must not take a thread that all share.
    package var health: StoreHealth {
        get async {
            await withCheckedContinuation { measured in
                spaceQueue.async {
                    self.measureSpace()
                    measured.resume()
                }
            }
            return state.withLock { $0.health() }
        }
    }

    /// Bytes that the disk of the data directory still takes; nil when that cannot be told.
    package var freeBytes: Int64? { FileOperation.freeBytes(at: directory.path) }

    /// Counters and commit durations since the store was opened.
    package var figures: Figures { state.withLock { $0.figures } }

    /// Publishes that wait for the writer or are being committed.
    package var waitingPublishes: Int { state.withLock { $0.waiting } }

    /// Lets the publish that is being committed finish, refuses those that wait as unavailable, then closes the
    /// database and gives up the data directory. Blocks until that is done; closing twice does nothing.
    package func close() {
        let hasFailed = state.withLock { $0.failure != nil }
        guard state.withLock({ $0.close() }) else { return }
        do {
            // SQLite empties the log only when the last connection may write, and GRDB closes its writer first.
            // A copy of a stopped daemon's database file must be complete.
            if !hasFailed { _ = try database.writeWithoutTransaction { try $0.checkpoint(.truncate) } }
            try database.close()
        } catch {
            log(.warning, "closing the database failed", ["error": "\(error)"])
        }
        files.lock.release()
    }

    /// Parts that opening a store yields, before there is a store.
    struct Parts {
        let directory: DataDirectory
        let projects: ProjectTable
        let lock: DirectoryLock
        let connection: StoreConnection
        let mark: HighWaterMark
        let epoch: Epoch
        let beganAnew: Bool
        let currentTemplates: CurrentTemplates
        let releases: [Scope: Release]
        let floors: NumberFloors
    }

    /// Something worth a log line. The store has no logger; the daemon turns these into its own.
    package struct LogLine: Sendable, Hashable {
        package enum Level: Sendable, Hashable { case info, warning, error }

        package let level: Level
        /// A constant lower-case phrase.
        package let message: String
        /// Details that vary, by metadata key.
        package let details: [String: String]
    }

    /// Counts since the store was opened.
    package struct Figures: Sendable, Hashable {
        /// Seconds that commits took, from the transaction's begin to durable.
        package var commits = Histogram(bounds: [
            0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5,
        ])
        /// Versions committed by publish, and by rollback.
        package var published: UInt64 = 0
        package var rolledBack: UInt64 = 0
        /// Publishes that failed, by cause: stale ETag, no space, outcome unknown, anything else.
        package var mismatched: UInt64 = 0
        package var refusedForSpace: UInt64 = 0
        package var unknownOutcomes: UInt64 = 0
        package var refused: UInt64 = 0
        /// Versions that retention removed.
        package var removed: UInt64 = 0
        /// Write-backs of the write-ahead log that did not get through.
        package var failedCheckpoints: UInt64 = 0

        package init() {}

        mutating func count(_ error: StoreError) {
            switch error {
            case .versionMismatch: mismatched += 1
            case .diskFull: refusedForSpace += 1
            case .outcomeUnknown: unknownOutcomes += 1
            // The cluster's, which learns later what became of it.
            case .outcomePending: break
            default: refused += 1
            }
        }
    }
}

/// Takes the store's lines of log.
struct StoreLog: Sendable {
    let take: @Sendable (TemplateStore.LogLine) -> Void

    func callAsFunction(_ level: TemplateStore.LogLine.Level, _ message: String, _ details: [String: String]) {
        take(TemplateStore.LogLine(level: level, message: message, details: details))
    }
}
