import GRDB
import StalecastTemplate
package import StalecastWire
import Synchronization

extension TemplateStore {
    /// Commits `publish` as its scope's next version, and returns when it is durable, visible and announced.
    ///
    /// Cancelling the caller's task does not stop a publish that has been handed in.
    ///
    /// - Throws: ``StoreError/versionMismatch(expected:found:)``, ``StoreError/unknownProject(_:)``,
    ///   ``StoreError/diskFull(_:)``, ``StoreError/unavailable(_:)``: certainly not committed.
    ///   ``StoreError/outcomeUnknown(_:)``: as it says; the store has failed.
    package func publish(_ publish: Publish) async throws(StoreError) -> StoredVersion {
        try await commit(.publish(publish, content: publish.template.json.encoded(JSONStyle(asciiOnly: false))))
    }

    /// Commits what was seen at an origin, unless it is current here already; as ``publish(_:)`` otherwise.
    ///
    /// - Returns: nil when there was nothing to commit.
    /// - Throws: as ``publish(_:)``; ``StoreError/versionMismatch(expected:found:)`` when the origin's number is not
    ///   higher than the current one.
    package func adopt(_ adoption: Adoption) async throws(StoreError) -> StoredVersion? {
        if adoption.relation(to: currentTemplates[adoption.scope]) == .isCurrent { return nil }
        return try await commit(
            .adopt(adoption, content: adoption.template.json.encoded(JSONStyle(asciiOnly: false))))
    }

    /// Makes the content of `target` the scope's next version.
    ///
    /// - Parameters:
    ///   - description: empty, the default, becomes `Rollback to version <target>`.
    ///   - idempotencyKey: see ``Publish/idempotencyKey``.
    /// - Throws: ``StoreError/unknownVersion(_:)`` for a target that is not stored,
    ///   ``StoreError/invalidRollback(target:current:)`` for the current one or a number below 1, and as
    ///   ``publish(_:)``.
    package func rollback(
        _ scope: Scope, to target: VersionNumber, if precondition: Publish.Precondition = .any,
        user: UpdateUser = UpdateUser(), origin: UpdateOrigin = .restAPI, description: String = "",
        idempotencyKey: String? = nil
    ) async throws(StoreError) -> StoredVersion {
        let rollback = Candidate.Rollback(
            scope: scope, target: target, precondition: precondition, user: user, origin: origin,
            description: description, idempotencyKey: idempotencyKey)
        return try await commit(.rollback(rollback))
    }

    /// Checks the project and the precondition against the current version, for `validateOnly`, and changes nothing.
    ///
    /// - Returns: the parameters that publishing would change, sorted.
    /// - Throws: ``StoreError/versionMismatch(expected:found:)``, ``StoreError/unknownProject(_:)``.
    package func check(_ publish: Publish) throws(StoreError) -> [String] {
        guard let number = projects.number(of: publish.scope.project) else {
            throw .unknownProject(publish.scope.project)
        }
        try checkRelease(.publish(publish, content: []))
        let current = currentTemplates[publish.scope]
        try NextVersion.check(publish.precondition, against: current, projectNumber: number)
        return TemplateDifference.changedKeys(from: current?.template ?? .empty, to: publish.template)
    }

    func commit(_ candidate: Candidate) async throws(StoreError) -> StoredVersion {
        if let refusal = state.withLock({ $0.admit(atMost: configuration.maxWaitingPublishes) }) {
            state.withLock { $0.figures.count(refusal) }
            throw refusal
        }
        // The versions of a replica get their numbers from the shared log.
        if let authority {
            defer { state.withLock { $0.leave() } }
            do throws(StoreError) {
                let version = try await authority.commit(candidate)
                await decide(candidate, version)
                return version
            } catch {
                state.withLock { $0.figures.count(error) }
                throw error
            }
        }
        let ready = candidate.template.flatMap { ReadyTemplate.made(of: $0, in: candidate.scope) }
        // GRDB's async writes give up when the task is cancelled, in the middle too.
        let result = await withCheckedContinuation { continuation in
            let isFirst = state.withLock {
                $0.queue(QueuedPublish(candidate: candidate, ready: ready, audit: .current, done: continuation))
            }
            // A publish that runs on the writer commits at once, and takes along what waits for the writer's turn.
            let isDone = connection.writer.doIfCurrent { self.commitQueued($0) }
            // Only the first publish that waits asks for a turn, which takes the others along.
            if isFirst, !isDone { connection.inTurn { self.commitQueued($0) } }
        }
        return try result.get()
    }

    /// Publishes that share one transaction at most, and with it one synchronisation of the disk.
    private static let publishesPerCommit = 64

    /// Commits what waits for the writer.
    private func commitQueued(_ db: Database) {
        let (batch, hasMore) = state.withLock { $0.takeQueued(atMost: Self.publishesPerCommit) }
        // A publish on the writer took what this turn was for.
        if batch.isEmpty { return }
        let results = commitOnWriter(batch, db)
        for (publish, result) in zip(batch, results) {
            state.withLock { $0.leave() }
            publish.done.resume(returning: result)
        }
        checkpointIfDue(because: results.last)
        // The rest waits behind other work of the writer.
        if hasMore { connection.inTurn { self.commitQueued($0) } }
    }

    /// Durable, visible, announced: in this order, before the next publish begins. A candidate that concerns a release
    /// has a transaction of its own: what is decided about it depends on the one before.
    private func commitOnWriter(_ batch: [QueuedPublish], _ db: Database) -> [Result<StoredVersion, StoreError>] {
        if batch.count > 1, batch.contains(where: { concernsRelease($0.candidate) }) {
            return batch.flatMap { commitOnWriter([$0], db) }
        }
        do throws(StoreError) {
            if let refusal = state.withLock(\.refusal) { throw refusal }
            try refuseWithoutSpace()
            let began = ContinuousClock.now
            let made = try runTransaction(batch, db)
            show(made, took: ContinuousClock.now - began)
            return made.map { result in result.map(\.version) }
        } catch {
            // The write that failed may be one publish's. What may have been committed is never written again.
            if batch.count > 1, case .none = state.withLock(\.failure) {
                return batch.flatMap { commitOnWriter([$0], db) }
            }
            for _ in batch { state.withLock { $0.figures.count(error) } }
            return batch.map { _ in .failure(error) }
        }
    }

    /// Makes what was committed visible and announces it, in its order.
    private func show(_ made: [Result<Appended, StoreError>], took: Duration) {
        let versions = made.compactMap { try? $0.get() }  // refusals are counted below
        // Freed after the announcement: a template has thousands of parts.
        let former = versions.map { currentTemplates[$0.version.scope] }
        defer { withExtendedLifetime(former) {} }
        if let last = versions.last {
            note(.enough)
            recordMark(last.version.change.sequence)
        }
        for (version, removed, publish, step) in versions {
            let candidate = publish.candidate
            publish.audit?.committed(version.change.sequence)
            if !candidate.isAdoption { warnIfClockWentBack(before: version) }
            currentTemplates.show(version)
            if let step { releases.withLock { $0[version.scope] = step.release } }
            let (handler, releaseHandler) = state.withLock { state in
                state.committed(isRollback: candidate.isRollback, removed: removed, took: took)
                return (state.commitHandler, state.releaseHandler)
            }
            if let step, let releaseHandler { releaseHandler(step, version) } else { handler?(version) }
        }
        for case .failure(let error) in made { state.withLock { $0.figures.count(error) } }
    }

    /// The order of versions does not depend on the clock, but ages, retention and the audit log do.
    private func warnIfClockWentBack(before version: StoredVersion) {
        let (metadata, previous) = (version.change.metadata, currentTemplates[version.change.scope]?.change.metadata)
        guard let previous, metadata.number > previous.number, metadata.updateTime < previous.updateTime else { return }
        log(
            .warning, "a version has an earlier time than the one before it: was the clock put back?",
            [
                "scope": "\(version.change.scope)", "version": "\(metadata.number)",
                "time": metadata.updateTime.description, "before": previous.updateTime.description,
            ])
    }

    /// A file that was removed or replaced takes commits as before, and the next start does not find them.
    private func refuseWithoutFile() throws(StoreError) {
        let found: FileOperation.Identity?
        do { found = try FileOperation.identity(directory.database) } catch {
            throw .unavailable("\(error); nothing was committed")
        }
        guard found == nil || found != files.database else { return }
        let reason = "\(directory.database) was \(found == nil ? "removed" : "replaced") while the daemon runs"
        fail(reason)
        throw .unavailable("\(reason); nothing was committed")
    }

    func refuseWithoutSpace() throws(StoreError) {
        try refuseWithoutFile()
        guard let free = measureSpace() else { return }
        throw .diskFull(
            "\(StoreHealth.size(free)) are free in \(directory.path), and store.minFreeSpace asks for "
                + "\(StoreHealth.size(configuration.minFreeBytes)); nothing was committed; free some space and publish again"
        )
    }

    /// Result of a candidate's transaction: the version, how many old ones had to go, and what became of a release.
    private typealias Appended = (version: StoredVersion, removed: Int, publish: QueuedPublish, step: ReleaseStep?)

    /// - Returns: a refusal for each candidate whose precondition does not hold; the others are committed.
    /// - Throws: when nothing was committed, or the outcome is unknown.
    private func runTransaction(
        _ batch: [QueuedPublish], _ db: Database
    ) throws(StoreError) -> [Result<Appended, StoreError>] {
        var stage = CommitFault.Stage.beforeCommit
        do {
            try db.run("BEGIN IMMEDIATE TRANSACTION")
            var ends = WriterEnds(currentTemplates)
            let head = ends.head
            // First of all, so that a foreign writer is noticed before anything is written.
            try moveHead(from: head, to: head + UInt64(batch.count), db)
            let made = try batch.map { try append($0, &ends, db) }
            // All candidates were refused.
            guard ends.head > head else {
                rollBack(db)
                return made
            }
            // Some were refused.
            if ends.head < head + UInt64(batch.count) {
                try moveHead(from: head + UInt64(batch.count), to: ends.head, db)
            }
            // Their lines are durable, and this commit is synchronised in any case.
            let removable = state.withLock(\.auditBacklog.removable)
            try AuditTable.remove(removable, db)
            // An error after this may mean that the commit is on the disk.
            stage = .committing
            try db.run("COMMIT TRANSACTION")
            state.withLock { $0.auditBacklog.removed(removable.count) }
            return made
        } catch {
            rollBack(db)
            throw judge(error, at: stage)
        }
    }

    /// - Throws: when a write failed, so that the transaction must not be committed.
    private func append(
        _ publish: QueuedPublish, _ ends: inout WriterEnds, _ db: Database
    ) throws -> Result<Appended, StoreError> {
        let candidate = publish.candidate
        let (scope, now) = (candidate.scope, configuration.now())
        var version: StoredVersion
        do {
            try checkRelease(candidate)
            version = try make(candidate, ends, now, db)
            // Nothing that takes long may come between the commit and the first message.
            version.ready = publish.ready ?? .made(of: version.template, in: scope)
        } catch let refusal as StoreError {
            return .failure(refusal)
        }
        // Fails only if the database has a version that memory does not know.
        guard try VersionTable.append(version, after: ends[scope]?.version ?? 0, db) else { throw foreignWrite() }
        if let audit = publish.audit { try AuditTable.add(audit, of: version, db) }
        if case .approve(let approval) = candidate {
            let decision = Proposal.Decision(by: approval.by, time: now, version: version.version)
            try ProposalTable.decide(approval.number, of: scope, .approved, decision, db)
        }
        ends.append(version)
        let step = try step(of: candidate, version, now: now, db)
        let retention = retention
        guard state.withLock({ $0.retentionPace.isDue(scope, retention, now: now) }) else {
            return .success((version, 0, publish, step))
        }
        let removed = try retention.apply(to: scope, now: trustedTime(now), limit: Self.removalsPerPublish, db)
        return .success((version, removed, publish, step))
    }

    private func make(
        _ candidate: Candidate, _ ends: WriterEnds, _ now: Timestamp, _ db: Database
    ) throws -> StoredVersion {
        let scope = candidate.scope
        guard let projectNumber = projects.number(of: scope.project) else {
            throw StoreError.unknownProject(scope.project)
        }
        let next = NextVersion(
            scope: scope, projectNumber: projectNumber, current: ends[scope], head: ends.head,
            floor: floors[scope], now: now)
        return try next.make(candidate, db)
    }

    /// Bounds what retention adds to a publish: 1 in the long run. Twice what a burst leaves, so that a limit that was
    /// lowered is reached in a burst too.
    static let removalsPerPublish = 2 * RetentionPace.publishes

    /// Moves the stored head. Memory and database agree as long as no other process writes into the file; a second writer
    /// would break the promise that a version's content never changes.
    ///
    /// - Throws: when the stored head is not `head`.
    private func moveHead(from head: CommitSequence, to next: CommitSequence, _ db: Database) throws {
        try db.run("UPDATE store SET head = ?2 WHERE head = ?1", [Int64(head), Int64(next)])
        guard db.changesCount == 1 else { throw foreignWrite() }
    }

    /// Checks the stored head like ``moveHead(from:to:_:)``, and leaves it.
    func assertOnlyWriter(_ db: Database) throws {
        let head = try Int64.fetchOne(db.cachedStatement(sql: "SELECT head FROM store")) ?? -1
        guard head == Int64(currentTemplates.head) else { throw foreignWrite() }
    }

    private func foreignWrite() -> StoreError {
        let reason = "another program wrote into \(directory.database)"
        fail(reason)
        return .unavailable("\(reason); nothing was committed; restart the daemon")
    }

    /// A mark that cannot be written does not undo a commit: the version is durable, and must be acknowledged.
    func recordMark(_ head: CommitSequence) {
        do { try mark.write(.init(epoch: epoch, head: head)) } catch  where error.isNoSpace {
            log(.warning, "high-water mark could not be written", ["error": "\(error)"])
        } catch {
            fail("the high-water mark could not be written: \(error)")
        }
    }
}

/// A publish that waits for the writer.
struct QueuedPublish: Sendable {
    let candidate: Candidate
    /// Form of its template for fetches; nil where only the database knows the template, and for a server template.
    let ready: ReadyTemplate?
    /// Entry that its transaction stores for the audit log; nil: none.
    let audit: AuditEntry?
    let done: CheckedContinuation<Result<StoredVersion, StoreError>, Never>
}

/// Ends of each scope and of the store inside a transaction, before its additions are durable.
private struct WriterEnds {
    private let durable: CurrentTemplates
    private var added: [Scope: StoredVersion] = [:]
    private(set) var head: CommitSequence

    init(_ durable: CurrentTemplates) {
        self.durable = durable
        head = durable.head
    }

    subscript(scope: Scope) -> StoredVersion? { added[scope] ?? durable[scope] }

    mutating func append(_ version: StoredVersion) {
        added[version.scope] = version
        head = version.change.sequence
    }
}
