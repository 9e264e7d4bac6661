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

    /// What `validateOnly` needs: checks the project and the precondition against the version that is current now, and
    /// changes nothing.
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
        if let authority = authority.withLock({ $0 }) {
            defer { state.withLock { $0.leave() } }
            do throws(StoreError) {
                let version = try await authority.commit(PendingVersion(candidate))
                await decide(candidate, version)
                return version
            } catch {
                state.withLock { $0.figures.count(error) }
                throw error
            }
        }
        // The callback form on purpose: GRDB's async writes give up when the task is cancelled, in the middle too.
        let result = await withCheckedContinuation { continuation in
            database.asyncWriteWithoutTransaction { db in
                let result = self.commitOnWriter(candidate, db)
                self.state.withLock { $0.leave() }
                continuation.resume(returning: result)
                self.checkpointIfDue(db, because: result)
            }
        }
        return try result.get()
    }

    /// Durable, visible, announced: in this order, before the next publish begins.
    private func commitOnWriter(_ candidate: Candidate, _ db: Database) -> Result<StoredVersion, StoreError> {
        do throws(StoreError) {
            if let refusal = state.withLock(\.refusal) { throw refusal }
            try refuseWithoutSpace()
            let began = ContinuousClock.now
            try checkRelease(candidate)
            let (version, removed, step) = try runTransaction(candidate, db)
            let took = ContinuousClock.now - began
            note(.enough)
            recordMark(version.change.sequence)
            if !candidate.isAdoption { warnIfClockWentBack(before: version) }
            currentTemplates.show(version)
            if let step { releases.withLock { $0[version.scope] = step.release } }
            let (handler, releaseHandler) = state.withLock { state in
                state.committed(isRollback: candidate.isRollback, removed: removed, took: took)
                return (state.commitHandler, state.releaseHandler)
            }
            if let step, let releaseHandler { releaseHandler(step, version) } else { handler?(version) }
            return .success(version)
        } catch {
            state.withLock { $0.figures.count(error) }
            return .failure(error)
        }
    }

    /// The order of versions does not depend on the clock, but ages, retention and the audit log do.
    private func warnIfClockWentBack(before version: StoredVersion) {
        let (metadata, previous) = (version.change.metadata, currentTemplates[version.change.scope]?.change.metadata)
        guard let previous, metadata.number > previous.number, metadata.updateTime < previous.updateTime else { return }
        log(
            Notice(
                .warning, "a version has an earlier time than the one before it: was the clock put back?",
                [
                    "scope": "\(version.change.scope)", "version": "\(metadata.number)",
                    "time": metadata.updateTime.description, "before": previous.updateTime.description,
                ]))
    }

    func refuseWithoutSpace() throws(StoreError) {
        guard let free = measureSpace() else { return }
        throw .diskFull(
            "\(StoreHealth.size(free)) are free in \(directory.path), and store.minFreeSpace asks for "
                + "\(StoreHealth.size(configuration.minFreeBytes)); nothing was committed; free some space and publish again"
        )
    }

    private func runTransaction(_ candidate: Candidate, _ db: Database) throws(StoreError) -> (
        StoredVersion, removed: Int, ReleaseStep?
    ) {
        var stage = CommitFault.Stage.beforeCommit
        do {
            try db.beginTransaction(.immediate)
            let appended = try append(candidate, db)
            stage = .committing
            try db.commit()
            return appended
        } catch {
            rollBack(db)
            throw judge(error, at: stage)
        }
    }

    /// - Returns: the new version, how many old ones had to go, and what became of a release.
    private func append(_ candidate: Candidate, _ db: Database) throws -> (StoredVersion, removed: Int, ReleaseStep?) {
        let scope = candidate.scope
        guard let projectNumber = projects.number(of: scope.project) else {
            throw StoreError.unknownProject(scope.project)
        }
        let current = currentTemplates[scope]
        try assertOnlyWriter(scope, current, db)
        let now = configuration.now()
        let next = NextVersion(
            scope: scope, projectNumber: projectNumber, current: current, head: currentTemplates.head,
            floor: try NumberFloors.number(of: scope, db), now: now)
        let version = try next.make(candidate, db)
        try VersionTable.append(version, db)
        if case .approve(let approval) = candidate {
            let decision = Proposal.Decision(by: approval.by, time: now, version: version.version)
            try ProposalTable.decide(approval.number, of: scope, .approved, decision, db)
        }
        try db.execute(sql: "UPDATE store SET head = ?", arguments: [Int64(version.change.sequence)])
        let step = try step(of: candidate, version, now: now, db)
        return (
            version, try retention.apply(to: scope, now: trustedTime(now), limit: Self.removalsPerPublish, db), step
        )
    }

    /// Bounds what retention adds to a publish: 1 in the long run, more after the limits were lowered.
    static let removalsPerPublish = 16

    /// Memory and database agree as long as nobody else writes into the file; a second writer would break the promise
    /// that a version's content never changes.
    func assertOnlyWriter(_ scope: Scope, _ current: StoredVersion?, _ db: Database) throws {
        let head = try Int64.fetchOne(db, sql: "SELECT head FROM store") ?? -1
        let latest = try VersionTable.latest(scope, db)
        guard head == Int64(currentTemplates.head), latest == current?.version ?? 0 else {
            let reason = "somebody else wrote into \(directory.database)"
            fail(reason)
            throw StoreError.unavailable("\(reason); nothing was committed; restart the daemon")
        }
    }

    /// A mark that cannot be written does not undo a commit: the version is durable, and must be acknowledged.
    func recordMark(_ head: CommitSequence) {
        do { try mark.write(.init(epoch: epoch, head: head)) } catch  where error.isNoSpace {
            log(TemplateStore.Notice(.warning, "high-water mark could not be written", ["error": "\(error)"]))
        } catch {
            fail("the high-water mark could not be written: \(error)")
        }
    }
}
