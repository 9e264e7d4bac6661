import GRDB
import StalecastTemplate
package import StalecastWire

/// A version to be made, before it has a number.
package enum Candidate: Sendable {
    /// `content` is the template's JSON, encoded before the writer is asked for.
    case publish(Publish, content: [UInt8])
    case adopt(Adoption, content: [UInt8])
    case rollback(Rollback)
    case approve(Approval)
    /// No version: a change of the open release, which has a place in a shared log.
    case release(ReleaseChange)

    /// A request for an old version's content to become the next version.
    package struct Rollback: Sendable {
        let scope: Scope
        let target: VersionNumber
        let precondition: Publish.Precondition
        let user: UpdateUser
        let origin: UpdateOrigin
        /// Empty takes `Rollback to version <target>`.
        let description: String
        /// See ``Publish/idempotencyKey``.
        let idempotencyKey: String?
        /// The release that this takes back; nil: none.
        var ends: ReleaseEnd?
    }

    /// The end of a release by its rollback.
    package struct ReleaseEnd: Sendable {
        let version: VersionNumber
        let decision: ReleaseDecision
    }

    /// A request for an open release to change.
    package struct ReleaseChange: Sendable {
        let scope: Scope
        let action: ReleaseAction
        let decision: ReleaseDecision
    }

    /// A request for an open proposal to become the next version.
    package struct Approval: Sendable {
        let scope: Scope
        let number: Int64
        let by: Proposal.Person
        /// True when its proposer may approve it.
        let allowsOwn: Bool
        /// Makes approvals of one proposal at several nodes one publish; nil: it is this store's own.
        var key: String?
    }

    package var scope: Scope {
        switch self {
        case .publish(let publish, _): publish.scope
        case .adopt(let adoption, _): adoption.scope
        case .rollback(let rollback): rollback.scope
        case .approve(let approval): approval.scope
        case .release(let change): change.scope
        }
    }

    /// Template of the version, where it is known before the database is asked.
    var template: Template? {
        switch self {
        case .publish(let publish, _): publish.template
        case .adopt(let adoption, _): adoption.template
        case .rollback, .approve, .release: nil
        }
    }

    /// Way in which the version is released; nil: to all at once.
    var staged: Publish.Staged? { if case .publish(let publish, _) = self { publish.staged } else { nil } }

    /// Whether it may take the place of a release that is open: what an origin says, and every rollback, may.
    var mayEndRelease: Bool {
        switch self {
        case .publish(let publish, _): publish.supersedes
        case .adopt, .rollback, .release: true
        case .approve: false
        }
    }

    /// Publisher, for a release's events.
    var publisher: String {
        switch self {
        case .publish(let publish, _):
            publish.author ?? (publish.user.email.isEmpty ? publish.user.name : publish.user.email)
        case .rollback(let rollback): rollback.user.email.isEmpty ? rollback.user.name : rollback.user.email
        case .adopt: "source"
        case .approve(let approval): approval.by.principal
        case .release(let change): change.decision.by
        }
    }

    /// Reason of a publish, for the events of a release that it ends; nil: none.
    var reason: String? { if case .publish(let publish, _) = self { publish.reason } else { nil } }

    /// Times of adopted versions are those of their origin.
    var isAdoption: Bool { if case .adopt = self { true } else { false } }
    package var isRollback: Bool { if case .rollback = self { true } else { false } }

    /// Key by which a repeated publish is recognised; nil: none.
    package var idempotencyKey: String? {
        switch self {
        case .publish(let publish, _): publish.idempotencyKey
        case .rollback(let rollback): rollback.idempotencyKey
        case .approve(let approval): approval.key
        case .adopt, .release: nil
        }
    }

    /// Ownership without which a shared log does not take it; nil: it is always taken.
    package var ownership: Ownership? {
        switch self {
        case .adopt(let adoption, _): adoption.ownership
        case .release(let change): change.decision.ownership
        case .rollback(let rollback): rollback.ends?.decision.ownership
        case .publish, .approve: nil
        }
    }

    /// Whether a version is what this asks for, whatever was current when it was made.
    package func isFulfilled(by version: StoredVersion) -> Bool {
        guard version.scope == scope else { return false }
        switch self {
        case .publish(let publish, let content):
            let metadata = version.metadata
            return metadata.updateType != .rollback && version.content == content
                && metadata.description == publish.description.withoutNULs
                && version.change.notes.isUrgent == publish.isUrgent
        case .rollback(let rollback):
            return version.metadata.updateType == .rollback && version.metadata.rollbackSource == rollback.target
        case .adopt, .approve, .release: return true
        }
    }

    /// Version that it would make at the replica's end.
    package enum Draft: Sendable {
        /// The next version, and the releases of its scope that it begins or ends, oldest first.
        case next(StoredVersion, releases: [Release])
        /// The current version at the next sequence, and its release as it becomes.
        case step(StoredVersion, Release)
        /// The version is what the origin has, and current already.
        case isCurrent(StoredVersion)
    }
}

/// Facts that the writer has when it turns a ``Candidate`` into the next version, inside the write transaction.
struct NextVersion {
    let scope: Scope
    let projectNumber: UInt64
    /// nil while the scope has none. The writer is the only one to change it, so it is what the database holds.
    let current: StoredVersion?
    let head: CommitSequence
    /// Highest number that was given away in histories that are lost.
    let floor: VersionNumber
    let now: Timestamp

    private var currentNumber: VersionNumber { current?.version ?? 0 }

    private func nextNumber() throws(StoreError) -> VersionNumber {
        guard let next = max(currentNumber, floor).next else { throw .numbersExhausted(scope) }
        return next
    }

    /// - Throws: ``StoreError`` when the precondition or the target does not hold, or what the database throws.
    func make(_ candidate: Candidate, _ db: Database) throws -> StoredVersion {
        switch candidate {
        case .publish(let publish, let content):
            try Self.check(publish.precondition, against: current, projectNumber: projectNumber)
            let metadata = VersionMetadata(
                number: try nextNumber(), updateTime: now, updateUser: publish.user,
                description: publish.description, updateOrigin: publish.origin,
                updateType: publish.updateType ?? publish.precondition.updateType)
            return version(metadata, publish.template, content, ChangeNotes(isUrgent: publish.isUrgent))
        case .adopt(let adoption, let content):
            let metadata = try adoption.metadata(after: currentNumber, floor: floor, now: now)
            return version(metadata, adoption.template, content, adoption.notes)
        case .rollback(let rollback):
            try Self.check(rollback.precondition, against: current, projectNumber: projectNumber)
            let target = try self.target(of: rollback, db)
            let metadata = VersionMetadata(
                number: try nextNumber(), updateTime: now, updateUser: rollback.user,
                description: rollback.description.isEmpty
                    ? "Rollback to version \(rollback.target)" : rollback.description,
                updateOrigin: rollback.origin, updateType: .rollback, rollbackSource: rollback.target)
            return version(metadata, target.template, target.content)
        case .approve(let approval):
            let (proposal, content) = try ProposalTable.open(approval.number, of: scope, now: now, db)
            if !approval.allowsOwn, approval.by.principal == proposal.author.principal {
                throw StoreError.ownProposal(approval.number)
            }
            // A version that came after the proposal makes it stale.
            try Self.check(.etag(proposal.baseETag), against: current, projectNumber: projectNumber)
            let metadata = VersionMetadata(
                number: try nextNumber(), updateTime: now, updateUser: proposal.author.user(approvedBy: approval.by),
                description: proposal.description, updateOrigin: proposal.origin)
            let template = try Template(stored: JSONValue.parse(content))
            return version(metadata, template, content, ChangeNotes(isUrgent: proposal.isUrgent))
        case .release: throw StoreError.noRelease(scope)
        }
    }

    /// The meaning of `If-Match`.
    static func check(
        _ precondition: Publish.Precondition, against current: StoredVersion?, projectNumber: UInt64
    ) throws(StoreError) {
        guard case .etag(let etag) = precondition else { return }
        // An empty scope has the ETag of version 0.
        let found = current?.etag ?? TemplateETag.of(project: projectNumber, version: 0)
        guard etag == found else {
            throw .versionMismatch(expected: TemplateETag.version(in: etag), found: current?.version ?? 0)
        }
    }

    private func target(of rollback: Candidate.Rollback, _ db: Database) throws -> StoredVersion {
        guard rollback.target != currentNumber, rollback.target > 0 else {
            throw StoreError.invalidRollback(target: rollback.target, current: currentNumber)
        }
        guard let target = try VersionTable.version(rollback.target, of: rollback.scope, db) else {
            throw StoreError.unknownVersion(rollback.target)
        }
        return target
    }

    private func version(
        _ metadata: VersionMetadata, _ template: Template, _ content: [UInt8], _ notes: ChangeNotes = ChangeNotes()
    ) -> StoredVersion {
        var metadata = metadata
        metadata.dropNULs()
        let keys = TemplateDifference.changedKeys(from: current?.template ?? .empty, to: template)
        let change = TemplateChange(
            scope: scope, sequence: head + 1, metadata: metadata,
            etag: TemplateETag.of(project: projectNumber, version: metadata.number), changedKeys: keys, notes: notes)
        return StoredVersion(change: change, template: template, content: content)
    }
}

extension VersionMetadata {
    /// An origin may say anything; bound to a statement, a text ends at its first NUL, and what is served before a restart
    /// must be what is served after it.
    fileprivate mutating func dropNULs() {
        description = description.withoutNULs
        updateUser = UpdateUser(
            name: updateUser.name.withoutNULs, email: updateUser.email.withoutNULs,
            imageURL: updateUser.imageURL.withoutNULs)
    }
}

extension String {
    fileprivate var withoutNULs: String {
        utf8.contains(0) ? filter { !$0.unicodeScalars.contains("\0") } : self
    }
}

/// Decision about an open release.
package struct ReleaseDecision: Sendable {
    /// Author, for the release's events.
    let by: String
    let reason: String?
    /// Figures that a gate saw.
    let figures: JSONValue?
    /// State that it was decided on, and the only one in which it is done; nil: any.
    let seen: Release?
    /// Ownership that entitles this node of a cluster to it; nil: none is asked for.
    let ownership: Ownership?

    package init(
        by: String, reason: String? = nil, figures: JSONValue? = nil, seen: Release? = nil,
        under ownership: Ownership? = nil
    ) {
        (self.by, self.reason, self.figures, self.seen, self.ownership) = (by, reason, figures, seen, ownership)
    }
}
