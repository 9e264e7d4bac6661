package import StalecastWire

/// Reason why the store did not carry out a request. After a publish, ``outcomeUnknown(_:)`` and
/// ``outcomePending(publish:)`` say that the version may have been committed anyway: never answer them with 503. Every
/// other error means *certainly not committed*.
package enum StoreError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The precondition's version is not the current one. `expected` is nil when the ETag carries no number.
    case versionMismatch(expected: VersionNumber?, found: VersionNumber)
    /// The scope has no such version, or no longer.
    case unknownVersion(VersionNumber)
    /// A rollback's target must be lower than the current version.
    case invalidRollback(target: VersionNumber, current: VersionNumber)
    /// The scope's current version has the highest number there is; only an origin that counts wildly gets there.
    case numbersExhausted(Scope)
    /// The scope has no such proposal, or no longer.
    case unknownProposal(Int64)
    /// The proposal was approved, rejected, or waited too long.
    case notOpen(Int64, Proposal.State)
    /// The proposer may not approve its own proposal.
    case ownProposal(Int64)
    /// The scope has as many open proposals as are allowed.
    case tooManyProposals(Int)
    /// The project is not configured.
    case unknownProject(ProjectID)
    /// The part of the proposal that nodes share has more bytes than a record can have.
    case proposalTooLarge(Int)
    /// A version's content has more bytes than the shared log takes of one.
    case contentTooLarge(Int, most: Int)
    /// The scope has brought as much into the shared log as it may within an hour; nothing was committed.
    case logFull(Scope)
    /// No space; nothing was committed; works again when there is space.
    case diskFull(String)
    /// The commit itself failed with an I/O error: the version may be there after the next start. The store has failed.
    case outcomeUnknown(String)
    /// The shared log gave no answer in time: the version may be there, or come to be. The store goes on, and the
    /// publish can be asked for by its identity.
    case outcomePending(publish: String)
    /// The idempotency key stands for another publish, which made this version.
    case keyReused(VersionNumber)
    /// A release of this version is open; nothing was committed.
    case releaseOpen(VersionNumber)
    /// The scope has no open release.
    case noRelease(Scope)
    /// The release cannot be changed so now; the sentence says why.
    case releaseRefused(String)
    /// The first version has none before it that clients could stay on.
    case nothingToStageOver
    /// The cluster's log may have nodes of a program that knows no releases.
    case clusterWithoutReleases
    /// The publish was refused, or rolled back, and is certainly not committed.
    case unavailable(String)
    /// A read failed; publishes may still work.
    case readFailed(String)
    /// The file is not a store this program may open: foreign, newer, or without its log. It was not changed.
    case notAStore(String)
    /// The store, or the backup, is damaged or lost; nothing was changed. A backup takes its place.
    case damaged(String)
    /// Another process holds the data directory.
    case locked(String)
    /// The data directory or a file in it cannot be made, opened or written.
    case inaccessible(String)
    /// The configured projects contradict each other.
    case misconfigured(String)
    /// A backup's destination is already there; it was not changed.
    case alreadyExists(String)

    /// A sentence that says what happened and, where there is something to do, what.
    package var description: String {
        switch self {
        case .versionMismatch(let expected, let found):
            "expected version \(expected.map(String.init) ?? "of another ETag"), found \(found)"
        case .unknownVersion(let number): "version \(number) is not stored"
        case .invalidRollback(let target, let current):
            "cannot roll back to version \(target): it is not lower than the current version \(current)"
        case .numbersExhausted(let scope):
            "\(scope) has version \(VersionNumber.max), the highest number there is: no version can follow it; nothing was "
                + "committed; restore a backup made before, or begin the scope anew in another data directory"
        case .unknownProposal(let number): "there is no proposal \(number), or no longer"
        case .notOpen(let number, let state):
            "proposal \(number) was \(state.rawValue.lowercased()) already; nothing was changed"
        case .ownProposal(let number): "who made proposal \(number) cannot approve it"
        case .tooManyProposals(let count): "\(count) proposals are open already; approve or reject some"
        case .proposalTooLarge(let bytes):
            "a proposal of \(bytes) bytes besides its template is too large for a cluster; shorten its texts"
        case .contentTooLarge(let bytes, let most):
            "a template of \(bytes) bytes is too large for a cluster, whose log takes \(most) at most; nothing was "
                + "committed; make it smaller, or split it over several namespaces"
        case .logFull(let scope):
            "the versions of \(scope) within the last hour fill their share of the cluster's log; nothing was committed; wait, "
                + "or publish less often; a rollback is still taken"
        case .releaseOpen(let version):
            "the release of version \(version) is open; promote it or roll it back first, or supersede it"
        case .noRelease(let scope): "no release of \(scope) is open"
        case .releaseRefused(let sentence): sentence
        case .nothingToStageOver: "the first version cannot be staged: there is none before it for the other clients"
        case .clusterWithoutReleases:
            "the cluster may have nodes of an older program, which do not know releases; nothing was committed; when all nodes "
                + "run this one, run `stalecast cluster upgrade`, or publish to all clients at once"
        case .unknownProject(let project): "project \(project) is not configured"
        case .outcomePending(let publish):
            "the log did not say in time what became of publish \(publish); ask for it, or read the template before "
                + "publishing again"
        case .keyReused(let number):
            "the idempotency key was used for version \(number), and this is another request; nothing was committed"
        case .diskFull(let sentence), .outcomeUnknown(let sentence), .unavailable(let sentence),
            .readFailed(let sentence), .notAStore(let sentence), .damaged(let sentence), .locked(let sentence),
            .inaccessible(let sentence), .misconfigured(let sentence), .alreadyExists(let sentence):
            sentence
        }
    }
}
