import GRDB
package import StalecastWire
import Synchronization

/// Effect of a commit on a release, for the announcement.
package struct ReleaseStep: Sendable, Hashable {
    package enum Kind: Sendable, Hashable {
        /// Nothing that clients are told of: a pause, a resume, or the end of the bake time.
        case noted
        /// The version is new; its first stage is reached.
        case began
        /// Further stages are reached.
        case reached
        /// The version brings back the content of before, for the stages that were told.
        case rolledBack
        /// Another version took the place of the release's.
        case superseded
    }

    package let kind: Kind
    package let release: Release
    /// Places in the policy's stages that this commit reaches.
    package let stages: Range<Int>
    /// Sequence of this commit; a later stage's is higher than its version's.
    package let sequence: CommitSequence

    package init(kind: Kind, release: Release, stages: Range<Int>, sequence: CommitSequence) {
        self.kind = kind
        self.release = release
        self.stages = stages
        self.sequence = sequence
    }

    /// The last stage is reached.
    package var isWhole: Bool { stages.upperBound == release.policy.stages.count }
}

/// Change of an open release, besides a rollback.
package enum ReleaseAction: Sendable, Hashable {
    /// Takes the step that is due by the clock: the next stage, or the end.
    case proceed
    case pause, resume
    /// To the next stage, whether its time has come or not.
    case advance
    /// Straight to all clients.
    case promote
}

extension TemplateStore {
    /// The newest release of a scope, open or not; nil where no version was ever staged.
    package func release(of scope: Scope) -> Release? { releases.withLock { $0[scope] } }

    /// The newest releases of a scope, newest first; at most 100 are kept.
    package func releases(of scope: Scope, limit: Int) async throws(StoreError) -> [Release] {
        try await read { try ReleaseTable.page(of: scope, limit: limit, $0) }
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
    /// - Parameters:
    ///   - by: who does it, for the release's events.
    ///   - figures: what a gate saw.
    /// - Throws: ``StoreError/noRelease(_:)``, ``StoreError/releaseRefused(_:)`` where it cannot be done now.
    package func change(
        releaseOf scope: Scope, _ action: ReleaseAction, by: String, reason: String? = nil, figures: JSONValue? = nil
    ) async throws(StoreError) -> Release {
        try refuseReleasesOfClusters()
        let result: Result<Release, StoreError> = await withCheckedContinuation { continuation in
            database.asyncWriteWithoutTransaction { db in
                continuation.resume(
                    returning: self.changeOnWriter(scope, action, by: by, reason: reason, figures: figures, db))
            }
        }
        return try result.get()
    }

    /// Ends an open release: the content of before becomes the next version, and the clients that were told of the
    /// release's are told of it.
    package func rollBack(
        releaseOf scope: Scope, by: String, reason: String?, user: UpdateUser = UpdateUser(),
        origin: UpdateOrigin = .restAPI, figures: JSONValue? = nil
    ) async throws(StoreError) -> StoredVersion {
        try refuseReleasesOfClusters()
        guard let release = release(of: scope), release.isOpen else { throw .noRelease(scope) }
        var rollback = Candidate.Rollback(
            scope: scope, target: release.base, precondition: .any, user: user, origin: origin,
            description: "Rollback of the release of version \(release.version)", idempotencyKey: nil)
        rollback.ends = Candidate.ReleaseEnd(version: release.version, by: by, reason: reason, figures: figures)
        return try await commit(.rollback(rollback))
    }

    private func refuseReleasesOfClusters() throws(StoreError) {
        guard authority.withLock({ $0 == nil }) else { throw .stagedInCluster }
    }

    private func changeOnWriter(
        _ scope: Scope, _ action: ReleaseAction, by: String, reason: String?, figures: JSONValue?, _ db: Database
    ) -> Result<Release, StoreError> {
        var stage = CommitFault.Stage.beforeCommit
        do throws(StoreError) {
            if let refusal = state.withLock(\.refusal) { throw refusal }
            guard var release = release(of: scope), release.isOpen, let version = currentTemplates[scope],
                version.version == release.version
            else { throw .noRelease(scope) }
            let told = release.stagesTold
            let sequence = currentTemplates.head + 1
            let now = configuration.now()
            do throws(Release.Refusal) {
                switch action {
                case .proceed:
                    switch release.due(at: now) {
                    case .advance: try release.advance(sequence: sequence, at: now, by: by, reason: reason)
                    case .finish: try release.finish(at: now, by: by)
                    case nil: return .success(release)
                    }
                case .advance: try release.advance(sequence: sequence, at: now, by: by, reason: reason)
                case .promote: try release.promote(sequence: sequence, at: now, by: by, reason: reason)
                case .pause: try release.pause(at: now, by: by, reason: reason, figures: figures)
                case .resume: try release.resume(at: now, by: by, reason: reason)
                }
            } catch {
                throw .releaseRefused(error.description)
            }
            let reaches = release.stagesTold > told
            if reaches { try refuseWithoutSpace() }
            do {
                try db.beginTransaction(.immediate)
                try assertOnlyWriter(scope, version, db)
                if reaches { try db.run("UPDATE store SET head = ?", [Int64(sequence)]) }
                try ReleaseTable.put(release, db)
                stage = .committing
                try db.commit()
            } catch {
                rollBack(db)
                throw judge(error, at: stage)
            }
            releases.withLock { $0[scope] = release }
            if reaches {
                recordMark(sequence)
                currentTemplates.advance(to: sequence)
            }
            let step = ReleaseStep(
                kind: reaches ? .reached : .noted, release: release, stages: told..<release.stagesTold,
                sequence: sequence)
            state.withLock(\.releaseHandler)?(step, version)
            return .success(release)
        } catch {
            return .failure(error)
        }
    }

    /// Begins or ends the release of a version's scope, inside the version's transaction.
    func step(
        of candidate: Candidate, _ version: StoredVersion, now: Timestamp, _ db: Database
    ) throws -> ReleaseStep? {
        let scope = candidate.scope
        if var open = release(of: scope), open.isOpen {
            let told = open.stagesTold
            if case .rollback(let rollback) = candidate, let end = rollback.ends {
                guard end.version == open.version else { throw StoreError.noRelease(scope) }
                try open.rollBack(
                    to: version.version, at: now, by: end.by, reason: end.reason, figures: end.figures)
                try ReleaseTable.put(open, db)
                return ReleaseStep(
                    kind: .rolledBack, release: open, stages: 0..<told, sequence: version.change.sequence)
            }
            try open.supersede(by: version.version, at: now, by: candidate.publisher)
            try ReleaseTable.put(open, db)
            guard candidate.staged != nil else {
                return ReleaseStep(
                    kind: .superseded, release: open, stages: 0..<told, sequence: version.change.sequence)
            }
        } else if case .rollback(let rollback) = candidate, rollback.ends != nil {
            throw StoreError.noRelease(scope)
        }
        guard let staged = candidate.staged else { return nil }
        var release = Release(
            scope: scope, version: version.version, base: currentTemplates[scope]?.version ?? 0, policy: staged.policy)
        try release.begin(sequence: version.change.sequence, at: now, by: staged.by)
        try ReleaseTable.put(release, db)
        return ReleaseStep(
            kind: .began, release: release, stages: 0..<release.stagesTold, sequence: version.change.sequence)
    }

    /// Whether a candidate begins or ends a release, or comes while one is open.
    func concernsRelease(_ candidate: Candidate) -> Bool {
        candidate.staged != nil || release(of: candidate.scope)?.isOpen == true
    }

    /// Checks whether a candidate may be staged, and may come while a release is open.
    ///
    /// - Throws: ``StoreError/releaseOpen(_:)`` for a publish that does not say that it supersedes an open release.
    func checkRelease(_ candidate: Candidate) throws(StoreError) {
        if candidate.staged != nil {
            try refuseReleasesOfClusters()
            guard currentTemplates[candidate.scope] != nil else { throw .nothingToStageOver }
        }
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
    /// Number of stages that were told.
    package var stagesTold: Int { policy.stages.count { $0 <= told } }

    /// Sequence at which each stage was told, by stage; nil: it was not.
    package var sequences: [CommitSequence?] {
        policy.stages.map { bound in reached.first { bound <= $0.stage }?.sequence }
    }
}
