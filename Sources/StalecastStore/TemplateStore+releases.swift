import GRDB
package import StalecastWire
import Synchronization

/// Change of an open release, besides a rollback.
package enum ReleaseAction: Sendable, Hashable {
    /// Takes the step that is due by the clock: the next stage, or the end.
    case proceed
    case pause, resume
    /// Takes the next stage, whether its time has come or not.
    case advance
    /// Straight to all clients.
    case promote
}

extension TemplateStore {
    /// The newest release of a scope, open or not; nil where no version was ever staged.
    package func release(of scope: Scope) -> Release? { releases.withLock { $0[scope] } }

    /// Newest release of a scope, after what other nodes of a cluster did, where the log answers.
    package func newestRelease(of scope: Scope) async -> Release? {
        await authority?.refresh()
        return release(of: scope)
    }

    /// The newest releases of a scope, newest first; at most 100 are kept.
    package func releases(of scope: Scope, limit: Int) async throws(StoreError) -> [Release] {
        await authority?.refresh()
        return try await read { try ReleaseTable.page(of: scope, limit: limit, $0) }
    }

    /// All releases of a scope that are kept. Blocks.
    package func recentReleases(of scope: Scope) throws -> [Release] {
        guard release(of: scope) != nil else { return [] }
        return try database.read { try ReleaseTable.page(of: scope, limit: ReleaseTable.most, $0) }
    }

    /// Releases that have not come to their end.
    package var openReleases: [Release] {
        releases.withLock { releases in releases.values.filter(\.isOpen).sorted { $0.scope < $1.scope } }
    }

    /// Sets the function that announces what a commit does to a release, in place of the commit handler. Set it once.
    package func setReleaseHandler(_ handler: @escaping @Sendable (ReleaseStep, StoredVersion) -> Void) {
        state.withLock { $0.releaseHandler = handler }
    }

    /// Changes an open release; returns when that is durable, and what it reaches is announced.
    ///
    /// - Throws: ``StoreError/noRelease(_:)``, ``StoreError/releaseRefused(_:)`` where it cannot be done now.
    package func change(
        releaseOf scope: Scope, _ action: ReleaseAction, _ decision: ReleaseDecision
    ) async throws(StoreError) -> Release {
        let change = Candidate.ReleaseChange(scope: scope, action: action, decision: decision)
        if authority != nil {
            _ = try await commit(.release(change))
            guard let release = release(of: scope) else { throw .noRelease(scope) }
            return release
        }
        let result: Result<Release, StoreError> = await withCheckedContinuation { continuation in
            database.asyncWriteWithoutTransaction { continuation.resume(returning: self.changeOnWriter(change, $0)) }
        }
        return try result.get()
    }

    /// Ends an open release: the content of before becomes the next version, and the clients that were told of the
    /// release's are told of it.
    package func rollBack(
        releaseOf scope: Scope, _ decision: ReleaseDecision, user: UpdateUser = UpdateUser(),
        origin: UpdateOrigin = .restAPI
    ) async throws(StoreError) -> StoredVersion {
        var open = decision.seen
        if open == nil { open = await newestRelease(of: scope) }
        guard let release = open, release.isOpen else { throw .noRelease(scope) }
        var rollback = Candidate.Rollback(
            scope: scope, target: release.base, precondition: .any, user: user, origin: origin,
            description: "Rollback of the release of version \(release.version)", idempotencyKey: nil)
        rollback.ends = Candidate.ReleaseEnd(version: release.version, decision: decision)
        return try await commit(.rollback(rollback))
    }

    /// Release of a scope as a change makes it at a sequence; nil where there is nothing to do.
    func changed(
        _ change: Candidate.ReleaseChange, at sequence: CommitSequence, _ now: Timestamp
    ) throws(StoreError) -> Release? {
        guard var release = release(of: change.scope), release.isOpen,
            currentTemplates[change.scope]?.version == release.version
        else { throw .noRelease(change.scope) }
        let decision = change.decision
        try release.require(decision.seen)
        let (by, reason) = (decision.by, decision.reason)
        do throws(Release.Refusal) {
            switch change.action {
            case .proceed:
                switch release.due(at: now) {
                case .advance: try release.advance(sequence: sequence, at: now, by: by, reason: reason)
                case .finish: try release.finish(at: now, by: by)
                case nil: return nil
                }
            case .advance: try release.advance(sequence: sequence, at: now, by: by, reason: reason)
            case .promote: try release.promote(sequence: sequence, at: now, by: by, reason: reason)
            case .pause: try release.pause(at: now, by: by, reason: reason, figures: decision.figures)
            case .resume: try release.resume(at: now, by: by, reason: reason)
            }
        } catch {
            throw .releaseRefused(error.description)
        }
        return release
    }

    private func changeOnWriter(_ change: Candidate.ReleaseChange, _ db: Database) -> Result<Release, StoreError> {
        let scope = change.scope
        do throws(StoreError) {
            if let refusal = state.withLock(\.refusal) { throw refusal }
            guard let former = release(of: scope), let version = currentTemplates[scope] else {
                throw .noRelease(scope)
            }
            let head = currentTemplates.head
            guard let release = try changed(change, at: head + 1, configuration.now()) else { return .success(former) }
            let reaches = release.stagesTold > former.stagesTold
            let sequence = reaches ? head + 1 : head
            if reaches { try refuseWithoutSpace() }
            try transaction(db) { db in
                try assertOnlyWriter(db)
                if reaches { try db.run("UPDATE store SET head = ?", [Int64(sequence)]) }
                try ReleaseTable.put(release, db)
            }
            releases.withLock { $0[scope] = release }
            if reaches {
                recordMark(sequence)
                currentTemplates.advance(to: sequence)
            }
            // Announces last: clients fetch as soon as they hear, and must find what is durable and visible.
            if let step = ReleaseStep([release], after: former, in: version.change.at(sequence)) {
                state.withLock(\.releaseHandler)?(step, version)
            }
            return .success(release)
        } catch {
            return .failure(error)
        }
    }

    /// Begins or ends the release of a version's scope, inside the version's transaction.
    func step(
        of candidate: Candidate, _ version: StoredVersion, now: Timestamp, _ db: Database
    ) throws -> ReleaseStep? {
        let changed = try releasesChanged(by: candidate, version, now)
        for release in changed { try ReleaseTable.put(release, db) }
        return ReleaseStep(changed, after: release(of: candidate.scope), in: version.change)
    }

    /// Releases that a candidate's version begins or ends, as they are afterwards, oldest first.
    func releasesChanged(
        by candidate: Candidate, _ version: StoredVersion, _ now: Timestamp
    ) throws(StoreError) -> [Release] {
        let scope = candidate.scope
        var changed: [Release] = []
        do {
            if var open = release(of: scope), open.isOpen {
                if case .rollback(let rollback) = candidate, let end = rollback.ends {
                    guard end.version == open.version else { throw StoreError.noRelease(scope) }
                    let decision = end.decision
                    try open.require(decision.seen)
                    try open.rollBack(
                        to: version.version, at: now, by: decision.by, reason: decision.reason,
                        figures: decision.figures)
                    return [open]
                }
                try open.supersede(
                    by: version.version, at: now, by: candidate.publisher, reason: candidate.reason)
                changed.append(open)
            } else if case .rollback(let rollback) = candidate, rollback.ends != nil {
                throw StoreError.noRelease(scope)
            }
            if let staged = candidate.staged {
                var release = Release(
                    scope: scope, version: version.version, base: currentTemplates[scope]?.version ?? 0,
                    policy: staged.policy)
                try release.begin(sequence: version.change.sequence, at: now, by: staged.by)
                changed.append(release)
            }
        } catch let error as StoreError {
            throw error
        } catch {
            throw .releaseRefused("\(error)")
        }
        return changed
    }

    /// Whether a candidate begins or ends a release, or comes while one is open.
    func concernsRelease(_ candidate: Candidate) -> Bool {
        candidate.staged != nil || release(of: candidate.scope)?.isOpen == true
    }

    /// Checks whether a candidate may be staged, and may come while a release is open.
    ///
    /// - Throws: ``StoreError/releaseOpen(_:)`` for a publish that does not say that it supersedes an open release.
    func checkRelease(_ candidate: Candidate) throws(StoreError) {
        if candidate.staged != nil, currentTemplates[candidate.scope] == nil { throw .nothingToStageOver }
        guard let open = release(of: candidate.scope), open.isOpen else { return }
        guard candidate.mayEndRelease else { throw .releaseOpen(open.version) }
        // Clients that were told of the open one would go back to its base.
        guard candidate.staged == nil || open.told == Percentage.whole else {
            throw .releaseRefused(
                "a staged publish cannot supersede the release of version \(open.version), of which only some clients "
                    + "were told; promote it or roll it back first, or publish with release=instant")
        }
    }
}

extension Release {
    /// - Throws: ``StoreError/releaseRefused(_:)`` when it is not what a change was decided on.
    fileprivate func require(_ seen: Release?) throws(StoreError) {
        guard seen == nil || seen == self else {
            throw .releaseRefused("the release of version \(version) has changed meanwhile; nothing was done")
        }
    }

    /// Number of stages that were told.
    package var stagesTold: Int { policy.stages.count { $0 <= told } }

    /// Sequence at which each stage was told, by stage; nil: it was not.
    package var sequences: [CommitSequence?] {
        policy.stages.map { bound in reached.first { bound <= $0.stage }?.sequence }
    }
}
