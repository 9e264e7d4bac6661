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
    package let projects: ProjectTable
    /// The newest version of every scope, without asking the database.
    package let currentTemplates: CurrentTemplates

    let configuration: StoreConfiguration
    let directory: DataDirectory
    private let retentionLimits: Mutex<Retention>
    let database: DatabasePool
    let mark: HighWaterMark
    let state: Mutex<StoreState>
    let log: @Sendable (StoreNotice) -> Void
    private let lock: DirectoryLock
    private let spaceQueue = DispatchQueue(label: "stalecast.store.space")

    init(_ parts: OpenedParts, configuration: StoreConfiguration, log: @escaping @Sendable (StoreNotice) -> Void) {
        self.configuration = configuration
        self.log = log
        epoch = parts.epoch
        projects = parts.projects
        currentTemplates = parts.currentTemplates
        directory = parts.directory
        database = parts.database
        mark = parts.mark
        lock = parts.lock
        retentionLimits = Mutex(
            Retention(maxVersions: configuration.maxVersionsPerScope, maxAge: configuration.maxVersionAge))
        state = Mutex(
            StoreState(checkpointBytes: configuration.checkpointBytes, minFreeBytes: configuration.minFreeBytes))
    }

    /// Which versions may go, as of now.
    var retention: Retention { retentionLimits.withLock { $0 } }

    /// Changes what is kept, from the next publish or sweep on. See ``StoreConfiguration/maxVersionsPerScope``.
    package func setRetention(maxVersions: Int, maxAge: Duration) {
        retentionLimits.withLock { $0 = Retention(maxVersions: maxVersions, maxAge: maxAge) }
    }

    /// The sequence of the newest visible commit; 0 while nothing was published.
    package func head() -> CommitSequence { currentTemplates.head }

    /// The project with this id or this number; nil when none is configured.
    package func resolve(_ idOrNumber: String) -> ProjectID? { projects.resolve(idOrNumber) }

    /// The ETag of `scope` now; of version 0 while it has none.
    ///
    /// - Throws: ``StoreError/unknownProject(_:)``.
    package func etag(of scope: Scope) throws(StoreError) -> String {
        if let current = currentTemplates[scope] { return current.etag }
        return try etag(of: scope, version: 0)
    }

    /// The ETag a version gets, or with 0 the one an empty scope and a successful validation have.
    ///
    /// - Throws: ``StoreError/unknownProject(_:)``.
    package func etag(of scope: Scope, version: VersionNumber) throws(StoreError) -> String {
        guard let number = projects.number(of: scope.project) else { throw .unknownProject(scope.project) }
        return TemplateETag.of(project: number, version: version)
    }

    /// Who hears of every commit: called on the writer's queue when the version is durable and visible, in sequence
    /// order, before the next publish begins. Set it once, before the first publish. It must be quick and must not call
    /// back into the store's database; ``currentTemplates`` is free to use.
    package func setCommitHandler(_ handler: @escaping @Sendable (StoredVersion) -> Void) {
        state.withLock {
            precondition($0.commitHandler == nil, "the commit handler is set once")
            $0.commitHandler = handler
        }
    }

    /// Who hears, once, that the store has failed and the process should exit non-zero; the argument says why, for the
    /// log. Called at once when it has failed already.
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

    /// Counters and commit durations since the store was opened.
    package var figures: StoreFigures { state.withLock { $0.figures } }

    /// Publishes that wait for the writer or are being committed.
    package var waitingPublishes: Int { state.withLock { $0.waiting } }

    /// Lets the publish that is being committed finish, refuses those that wait as unavailable, then closes the
    /// database and gives up the data directory. Blocks until that is done; closing twice does nothing.
    package func close() {
        let hasFailed = state.withLock { $0.failure != nil }
        guard state.withLock({ $0.close() }) else { return }
        do {
            // SQLite empties the log only when the last connection may write, and GRDB closes its writer first.
            // Whoever copies the database file of a stopped daemon must get all of it.
            if !hasFailed { _ = try database.writeWithoutTransaction { try $0.checkpoint(.truncate) } }
            try database.close()
        } catch {
            log(StoreNotice(.warning, "closing the database failed", ["error": "\(error)"]))
        }
        lock.release()
    }
}
