package import StalecastHTTP
package import StalecastStore
import StalecastWire

/// Every translation of a store's error into an answer (guarantee G12). An error answer to a publish is either
/// *certainly not committed* (4xx, 503) or *unknown* (500 and 504, with `"outcome":"unknown"`); 503 is never used for
/// unknown, because Firebase's Node Admin SDK sends a PUT again when it sees 503.
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
        case .numbersExhausted, .proposalTooLarge, .contentTooLarge:
            .invalidArgument("[VALIDATION_ERROR]: \(error.description)")
        case .unknownProposal: .notFound("Requested entity was not found: \(error.description).")
        case .notOpen(let number, let state):
            .failedPrecondition("Proposal \(number) was \(state.rawValue.lowercased()) already; nothing was done.")
        case .ownProposal(let number): Self.ownProposal(number)
        case .tooManyProposals(let count):
            GoogleError(
                429, "RESOURCE_EXHAUSTED", "There are \(count) open proposals already; approve or reject some of them.")
        case .logFull:
            GoogleError(429, "RESOURCE_EXHAUSTED", "[RESOURCE_EXHAUSTED]: \(error.description)")
                .with("Retry-After", "600").with(detail: Self.outcome("LOG_SHARE_SPENT", "not_committed"))
        case .releaseOpen(let version):
            GoogleError(
                409, "ABORTED",
                "[RELEASE_OPEN]: The release of version \(version) is open; nothing was committed. Promote it or roll it back "
                    + "first, or publish with supersede=true.")
        case .noRelease: .notFound("Requested entity was not found: \(error.description).")
        case .releaseRefused: GoogleError(409, "FAILED_PRECONDITION", error.description)
        case .nothingToStageOver, .clusterWithoutReleases: .failedPrecondition(error.description)
        case .unknownProject(let project): .notFound("Requested entity was not found: project \(project).")
        case .keyReused(let number): Self.keyReused(number)
        case .diskFull: Self.diskFull
        case .unavailable: Self.unavailable(error)
        case .outcomeUnknown: Self.outcomeUnknown
        case .outcomePending(let publish): Self.outcomePending(publish)
        case .readFailed, .notAStore, .damaged, .locked, .inaccessible, .misconfigured, .alreadyExists:
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

    private static func ownProposal(_ number: Int64) -> GoogleError {
        .failedPrecondition(
            "Proposal \(number) is your own: another principal has to approve it. All who use the control token are "
                + "one and the same; give people keys (`stalecast keys create --role publisher`) or tokens of an issuer."
        )
    }

    private static func keyReused(_ number: VersionNumber) -> GoogleError {
        GoogleError(
            422, "FAILED_PRECONDITION",
            "The Idempotency-Key was used before, for version \(number), and this is another request, or that version is not "
                + "stored any more. Nothing was done. Use a new key for each new request."
        ).with(detail: outcome("IDEMPOTENCY_KEY_REUSED", "not_committed"))
    }

    private static let diskFull = GoogleError(
        503, "UNAVAILABLE",
        "The disk is full: the change was certainly not committed. Make space; no restart is needed."
    ).with("Retry-After", "30").with(detail: outcome("DISK_FULL", "not_committed"))

    private static func unavailable(_ error: StoreError) -> GoogleError {
        GoogleError(503, "UNAVAILABLE", "The change was certainly not committed: \(error.description)")
            .with("Retry-After", "5").with(detail: outcome("STORE_UNAVAILABLE", "not_committed"))
    }

    private static let outcomeUnknown = GoogleError(
        500, "INTERNAL",
        "[INTERNAL]: The commit failed half-way: whether this version was committed is unknown. "
            + "Read the template before publishing again."
    ).with(detail: outcome("COMMIT_FAILED", "unknown"))

    /// No client sends a 504 again.
    private static func outcomePending(_ publish: String) -> GoogleError {
        let asking = "GET /v1/projects/PROJECT/publishes/\(publish)"
        return GoogleError(
            504, "DEADLINE_EXCEEDED",
            "The log of the cluster did not say in time whether this version was committed. Ask what became of it: \(asking)"
        ).with(detail: outcome("COMMIT_PENDING", "unknown", ["publishId": .string(publish)]))
    }

    private static func failed(commits: Bool) -> GoogleError {
        let error = GoogleError(500, "INTERNAL", "[INTERNAL]: The store could not answer; the daemon's log says why.")
        return commits ? error.with(detail: outcome("STORE_FAILED", "not_committed")) : error
    }

    /// - Parameter more: further members.
    static func outcome(_ reason: String, _ outcome: String, _ more: JSONObject = [:]) -> JSONValue {
        let detail: JSONObject = [
            "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": .string(reason), "domain": "stalecast",
            "outcome": .string(outcome),
        ]
        return .object(more.members.reduce(into: detail) { $0[$1.key] = $1.value })
    }
}
