import GRDB
import StalecastTemplate
package import StalecastWire
import Synchronization

/// A store whose versions come from a shared log. It numbers nothing by itself: what ``publish(_:)`` and its like are
/// given goes to the authority, and comes back through ``apply(_:)``.
extension TemplateStore {
    /// Blocks on the database.
    ///
    /// - Throws: ``StoreError/readFailed(_:)``, also for a store that is no replica.
    package func replicaState() throws(StoreError) -> ReplicaState {
        do {
            guard let state = try database.read(ReplicaTable.state) else { throw StoreError.readFailed("no replica") }
            return ReplicaState(epoch: epoch, head: head(), publish: state.publish, isWhole: state.isWhole)
        } catch {
            throw .readFailed("the replica's state could not be read: \(error)")
        }
    }

    /// Makes the version that would follow the replica's end; stores nothing. Times go forward within a scope.
    ///
    /// - Throws: as ``publish(_:)``, whose preconditions are checked against the replica.
    package func draft(_ candidate: Candidate) async throws(StoreError) -> Candidate.Draft {
        let scope = candidate.scope
        if let refusal = state.withLock(\.refusal) { throw refusal }
        guard let projectNumber = projects.number(of: scope.project) else { throw .unknownProject(scope.project) }
        let (current, head) = currentTemplates.end(of: scope)
        if case .adopt(let adoption, _) = candidate, let current, adoption.relation(to: current) == .isCurrent {
            return .isCurrent(current)
        }
        let release = release(of: scope)
        let last = [current?.metadata.updateTime, release?.events.last?.at].compactMap(\.self).max()
        // The clocks of nodes differ: the time must pass the scope's last one.
        let least = last?.microseconds.addingReportingOverflow(1).partialValue ?? .min
        let now = Timestamp(microseconds: max(configuration.now().microseconds, least))
        if case .release(let change) = candidate {
            guard let current else { throw .noRelease(scope) }
            guard let release = try changed(change, at: head + 1, now) else { return .isCurrent(current) }
            return .step(current.at(head + 1), release)
        }
        try checkRelease(candidate)
        do {
            let version = try await database.read { db in
                let next = NextVersion(
                    scope: scope, projectNumber: projectNumber, current: current, head: head,
                    floor: try NumberFloors.number(of: scope, db), now: now)
                return try next.make(candidate, db)
            }
            return .next(version, releases: try releasesChanged(by: candidate, version, now))
        } catch let error as StoreError {
            throw error
        } catch {
            throw .readFailed("the next version could not be made: \(error)")
        }
    }

    /// Takes entries of the log over, in its order: durable together, then each visible and announced before the next.
    ///
    /// - Throws: ``StoreError/readFailed(_:)`` for a content that cannot be read, which tells of a newer program or of
    ///   damage; otherwise as ``publish(_:)``. Nothing is applied then.
    package func apply(_ shared: [SharedVersion]) async throws(StoreError) {
        var versions: [StoredVersion?] = []
        for version in shared {
            do {
                versions.append(
                    try version.content.map { content in
                        // Parsed before the writer's turn, which other work waits for.
                        let template = try Template(stored: JSONValue.parse(content))
                        return StoredVersion(
                            change: version.change, template: template, content: content,
                            ready: .made(of: template, in: version.change.scope))
                    })
            } catch {
                throw .readFailed("version \(version.change.version) of \(version.change.scope) in the log: \(error)")
            }
        }
        _ = try await transact { [versions] db in
            (began: ContinuousClock.now, try self.append(shared, versions, db))
        } committed: { began, applied in
            self.note(.enough)
            self.show(applied.arrivals, removed: applied.removed, took: ContinuousClock.now - began)
        }
    }

    private func append(
        _ shared: [SharedVersion], _ versions: [StoredVersion?], _ db: Database
    ) throws -> (arrivals: [Arrival], removed: Int) {
        var (head, removed) = (currentTemplates.head, 0)
        var ends = ReplicaEnds(of: self)
        var arrivals: [Arrival] = []
        for (shared, version) in zip(shared, versions) {
            guard shared.change.sequence > head else {
                throw StoreError.unavailable("entry \(shared.change.sequence) of the log came again")
            }
            head = shared.change.sequence
            // The log's order counts: the number of the version before is not compared.
            if let version { _ = try VersionTable.append(version, after: nil, db) }
            let now = configuration.now()
            try ReplicaTable.note(shared, at: now, db)
            let (arrival, changed) = ends.take(shared, version)
            for release in changed { try ReleaseTable.put(release, db) }
            arrivals.append(arrival)
            guard version != nil else { continue }
            removed += try retention.apply(
                to: shared.change.scope, now: trustedTime(now), limit: Self.removalsPerPublish, db)
        }
        try db.run("UPDATE store SET head = ?", [Int64(head)])
        return (arrivals, removed)
    }

    private func show(_ arrivals: [Arrival], removed: Int, took: Duration) {
        for (number, arrival) in arrivals.enumerated() {
            recordMark(arrival.sequence)
            if let version = arrival.version {
                currentTemplates.show(version)
            } else {
                currentTemplates.advance(to: arrival.sequence)
            }
            if let release = arrival.step?.release { releases.withLock { $0[release.scope] = release } }
            let (handler, releaseHandler) = state.withLock { state in
                if let version = arrival.version {
                    let isRollback = version.metadata.updateType == .rollback
                    // The removals of the transaction are counted once.
                    state.committed(isRollback: isRollback, removed: number == 0 ? removed : 0, took: took)
                }
                return (state.commitHandler, state.releaseHandler)
            }
            if let step = arrival.step, let releaseHandler, let subject = arrival.subject {
                releaseHandler(step, subject)
            } else if let version = arrival.version {
                handler?(version)
            }
        }
    }

    /// The replica has come to the log's end: what it answers is whole. Durable when this returns.
    package func becameWhole() async throws(StoreError) {
        try await write { db in try db.execute(sql: "UPDATE replica SET isWhole = 1") }
    }

    /// Marks the replica as incomplete, so that the next start builds it again from the log, whatever its epoch is
    /// then. Durable when this returns.
    package func becamePartial() async throws(StoreError) {
        try await write { db in try db.execute(sql: "UPDATE replica SET isWhole = 0, publish = ''") }
    }

    /// Version that a publish made; nil when the replica knows nothing of it, or no longer.
    package func made(by publish: String) async throws(StoreError) -> MadeVersion? {
        let found = try await read { db in try ReplicaTable.version(of: publish, db) }
        guard let (scope, number) = found else { return nil }
        return MadeVersion(scope: scope, number: number, version: try await version(number, of: scope))
    }

    /// The lowest sequences that may be in the log but are not stored any more, and came here longer ago than `age`.
    package func removed(olderThan age: Duration, limit: Int) async throws(StoreError) -> [CommitSequence] {
        let now = configuration.now().microseconds
        let before = now.subtractingReportingOverflow(Int64(clamping: Int(age / .microseconds(1)))).partialValue
        return try await read {
            try ReplicaTable.removed(appliedBefore: Timestamp(microseconds: before), limit: limit, $0)
        }
    }

    /// Notes that these are not in the log any more.
    ///
    /// - Throws: as ``publish(_:)``.
    package func noteRemoved(_ sequences: [CommitSequence]) async throws(StoreError) {
        let head = head()
        try await write { db in try ReplicaTable.noteRemoved(sequences, of: head, db) }
    }

    /// Whether a data directory holds a replica that is whole; false as well where nothing can be read.
    package static func hasReplica(_ directory: String) -> Bool {
        let path = DataDirectory(directory).database
        guard FileOperation.exists(path) else { return false }
        // A file or a state that cannot be read is no replica; opening it tells why.
        let state = try? DatabaseInspection.read(path) { try ReplicaTable.exists($0) ? ReplicaTable.state($0) : nil }
        return state?.isWhole ?? false
    }

    /// Versions of every scope with their contents, in the order of their commits.
    package func versions(after sequence: CommitSequence, limit: Int) async throws(StoreError) -> [StoredVersion] {
        try await read { try VersionTable.versions(after: sequence, limit: limit, $0) }
    }

    /// Stored versions of all scopes.
    package func countVersions() async throws(StoreError) -> Int {
        try await read { try Int.fetchOne($0, sql: "SELECT count(*) FROM version") ?? 0 }
    }

    /// The first version whose content has more bytes; nil: there is none.
    package func version(largerThan bytes: Int) async throws(StoreError) -> (scope: Scope, number: VersionNumber)? {
        try await read { try VersionTable.version(largerThan: bytes, $0) }
    }

    /// A store of its own whose versions are the log's beginning is its first replica, from the next start on.
    ///
    /// - Parameter publish: the identity under which a commit is in the log.
    package func becomeReplica(_ publish: @escaping @Sendable (CommitSequence) -> String) async throws(StoreError) {
        let (head, now) = (head(), configuration.now())
        try await write { db in
            try ReplicaTable.create(db)
            try ReplicaTable.noteStored(at: now, publish, db)
            try db.execute(
                sql: "UPDATE replica SET publish = ?, isWhole = 1", arguments: [head == 0 ? "" : publish(head)])
        }
    }

    /// Decides the proposal of an approval whose version came by way of the log.
    func decide(_ candidate: Candidate, _ version: StoredVersion) async {
        guard case .approve(let approval) = candidate else { return }
        let decision = Proposal.Decision(by: approval.by, time: configuration.now(), version: version.version)
        do throws(StoreError) {
            try await approved(approval, decision)
        } catch {
            log(.warning, "an approved proposal stays open", ["error": error.description])
        }
    }
}

/// An entry of the log that is durable, and is to be shown.
private struct Arrival {
    let sequence: CommitSequence
    /// nil for a step of a release.
    let version: StoredVersion?
    let step: ReleaseStep?
    /// Version that the step is about, at the entry's sequence.
    let subject: StoredVersion?
}

/// Ends of each scope inside a transaction, before the entries in it are durable.
private struct ReplicaEnds {
    private let store: TemplateStore
    private var versions: [Scope: StoredVersion] = [:]
    private var releases: [Scope: Release] = [:]

    init(of store: TemplateStore) { self.store = store }

    /// - Returns: how the entry is to be shown, and the releases that it changes.
    mutating func take(_ shared: SharedVersion, _ version: StoredVersion?) -> (Arrival, changed: [Release]) {
        let (scope, change) = (shared.change.scope, shared.change)
        let former = releases[scope] ?? store.release(of: scope)
        let current = versions[scope] ?? store.currentTemplates[scope]
        var changed = shared.releases
        if let version {
            versions[scope] = version
            // The entry that ended it left the log before this replica was begun. One that refuses to end stays as it is.
            if changed.isEmpty, var lost = former, lost.isOpen,
                (try? lost.supersede(by: version.version, at: version.metadata.updateTime, by: "log")) != nil
            {
                changed = [lost]
            }
        } else if current?.version != change.version {
            // A step of a version that left the log already, or is of the past.
            changed = []
        }
        let step = ReleaseStep(changed, after: former, in: change)
        if let step { releases[scope] = step.release }
        let subject =
            version ?? current.map { StoredVersion(change: change, template: $0.template, content: $0.content) }
        return (Arrival(sequence: change.sequence, version: version, step: step, subject: subject), changed)
    }
}

extension StoredVersion {
    /// The version as a later commit told it.
    fileprivate func at(_ sequence: CommitSequence) -> StoredVersion {
        StoredVersion(change: change.at(sequence), template: template, content: content)
    }
}
