package import StalecastWire

/// Why the store did not do what it was asked. For a publish, ``isOutcomeUnknown`` tells the one case in which the
/// version may have been committed all the same; every other error means *certainly not committed*.
package enum StoreError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The precondition's version is not the current one. `expected` is nil when the ETag carries no number.
    case versionMismatch(expected: VersionNumber?, found: VersionNumber)
    /// The scope has no such version, or no longer.
    case unknownVersion(VersionNumber)
    /// A rollback's target must be lower than the current version.
    case invalidRollback(target: VersionNumber, current: VersionNumber)
    /// The scope's current version has the highest number there is; only an origin that counts wildly gets there.
    case numbersExhausted(Scope)
    /// The project is not configured.
    case unknownProject(ProjectID)
    /// No space; nothing was committed; works again when there is space.
    case diskFull(String)
    /// The commit itself failed with an I/O error: the version may be there after the next start. The store has failed.
    case outcomeUnknown(String)
    /// The publish was refused, or rolled back, and is certainly not committed.
    case unavailable(String)
    /// A read failed; says nothing about publishes.
    case readFailed(String)
    /// The file is not a store this program may open: foreign, damaged, or newer. It was not changed.
    case notAStore(String)
    /// Another process holds the data directory.
    case locked(String)
    /// The data directory or a file in it cannot be made, opened or written.
    case inaccessible(String)
    /// The configured projects contradict each other.
    case misconfigured(String)
    /// A backup's destination is already there; it was not changed.
    case alreadyExists(String)

    /// True only for ``outcomeUnknown(_:)``: never answer that with 503.
    package var isOutcomeUnknown: Bool { if case .outcomeUnknown = self { true } else { false } }

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
        case .unknownProject(let project): "project \(project) is not configured"
        case .diskFull(let sentence), .outcomeUnknown(let sentence), .unavailable(let sentence),
            .readFailed(let sentence), .notAStore(let sentence), .locked(let sentence), .inaccessible(let sentence),
            .misconfigured(let sentence), .alreadyExists(let sentence):
            sentence
        }
    }
}
