package import StalecastHTTP
package import StalecastStore
import StalecastWire

/// Every translation of a store's error into an answer (guarantee G12). An error answer to a publish is either
/// *certainly not committed* (4xx, 503) or *unknown* (500 with `"outcome":"unknown"`); 503 is never used for unknown,
/// because Firebase's Node Admin SDK sends a PUT again when it sees 503.
package struct OutcomeMapping: Sendable {
    /// The answer to an out-of-date `If-Match`: Firebase documents 400 in one place and 409 in another.
    package enum StaleETagStatus: Int, Sendable, CaseIterable {
        case badRequest = 400
        case conflict = 409
    }

    /// Default 400.
    package var staleETagStatus: StaleETagStatus

    package init(staleETagStatus: StaleETagStatus = .badRequest) { self.staleETagStatus = staleETagStatus }

    /// - Parameters:
    ///   - commits: true for a publish or a rollback; only then the answer speaks of an outcome.
    ///   - projectNumber: for Google's wording of a version mismatch.
    package func answer(to error: StoreError, commits: Bool, projectNumber: UInt64) -> GoogleError {
        switch error {
        case .versionMismatch(let expected, let found):
            mismatch(expected: expected, found: found, projectNumber: projectNumber)
        case .unknownVersion(let number):
            .notFound("Requested entity was not found: version \(number) is not stored, or no longer.")
        case .invalidRollback: .invalidArgument("[VALIDATION_ERROR]: \(error.description)")
        case .numbersExhausted: .invalidArgument("[VALIDATION_ERROR]: \(error.description)")
        case .unknownProject(let project): .notFound("Requested entity was not found: project \(project).")
        case .diskFull(let sentence): Self.diskFull(sentence)
        case .unavailable: Self.unavailable(error)
        case .outcomeUnknown: Self.outcomeUnknown
        case .readFailed, .notAStore, .locked, .inaccessible, .misconfigured, .alreadyExists:
            Self.failed(commits: commits)
        }
    }

    private func mismatch(expected: VersionNumber?, found: VersionNumber, projectNumber: UInt64) -> GoogleError {
        let message =
            expected.map { "[VERSION_MISMATCH]: Expected version \($0), found \(found) for project: \(projectNumber)" }
            ?? "[VERSION_MISMATCH]: If-Match is no ETag of this template, found version \(found) for project: \(projectNumber)"
        switch staleETagStatus {
        case .badRequest: return GoogleError(400, "FAILED_PRECONDITION", message)
        case .conflict: return GoogleError(409, "ABORTED", message)
        }
    }

    private static func diskFull(_ sentence: String) -> GoogleError {
        GoogleError(
            503, "UNAVAILABLE",
            "The disk is full: this publish was certainly not committed. Make space; no restart is needed. The store says: "
                + sentence
        ).with("Retry-After", "30").with(detail: outcome("DISK_FULL", "not_committed"))
    }

    private static func unavailable(_ error: StoreError) -> GoogleError {
        GoogleError(503, "UNAVAILABLE", "This publish was certainly not committed: \(error.description)")
            .with("Retry-After", "5").with(detail: outcome("STORE_UNAVAILABLE", "not_committed"))
    }

    private static let outcomeUnknown = GoogleError(
        500, "INTERNAL",
        "[INTERNAL]: The commit failed half-way: whether this version was committed is unknown. "
            + "Read the template before publishing again."
    ).with(detail: outcome("COMMIT_FAILED", "unknown"))

    private static func failed(commits: Bool) -> GoogleError {
        let error = GoogleError(500, "INTERNAL", "[INTERNAL]: The store could not answer; the daemon's log says why.")
        return commits ? error.with(detail: outcome("STORE_FAILED", "not_committed")) : error
    }

    private static func outcome(_ reason: String, _ outcome: String) -> JSONValue {
        [
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": .string(reason), "domain": "stalecast",
            "outcome": .string(outcome),
        ]
    }
}
