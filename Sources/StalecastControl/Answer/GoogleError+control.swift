package import StalecastHTTP
import StalecastWire

extension GoogleError {
    /// Missing or wrong credential. The sentence is the same for all, and for every path.
    package static let unauthenticated = GoogleError(
        401,
        "Request had invalid authentication credentials. Send `Authorization: Bearer <control token, key or token of an issuer>`; "
            + "the daemon wrote the token to control.token in its data directory. "
            + "This is Control; clients fetch and subscribe at Edge, the public listener."
    ).with("WWW-Authenticate", "Bearer realm=\"stalecast\"").closing()

    /// No grant for this, or nothing there: the same for both.
    package static let forbidden = GoogleError(
        403,
        "The caller does not have permission. `stalecast keys list` shows what each key is granted; an operator can "
            + "make another one."
    ).with("WWW-Authenticate", "Bearer realm=\"stalecast\", error=\"insufficient_scope\"")

    /// Refuses a change because the audit log is full: it would leave no trace.
    static let auditIsFull = GoogleError(
        503,
        "The audit log has no room for what this would change, so nothing was done. Free space on its disk, then try "
            + "again."
    ).with("Retry-After", "10")

    /// Too many bad credentials from one address.
    static let guessing = GoogleError(
        429, "RESOURCE_EXHAUSTED", "Too many requests with bad credentials from this address."
    ).with("Retry-After", "1").closing()

    /// The keys of the token's issuer are not here yet.
    static let credentialNotReady = GoogleError(
        503, "It cannot be said yet whether the token is good: its issuer's keys are being fetched. Try again."
    ).with("Retry-After", "2")

    static let ambiguousCredentials = GoogleError.invalidArgument(
        "The request has two different credentials, or one header twice. Send one."
    ).closing()

    /// The state of things, not the request, stands in the way.
    static func failedPrecondition(_ message: String) -> GoogleError { .init(400, "FAILED_PRECONDITION", message) }

    /// The scope's versions come from a source, which a publish here would contradict.
    static func fed(_ scope: Scope, by source: String) -> GoogleError {
        .failedPrecondition(
            "The versions of \(scope) come from \(source), and cannot be published or rolled back here: publish there, "
                + "or remove the scope from sources in the configuration.")
    }

    /// Refuses a publish in a scope where each needs an approval.
    static func needsApproval(_ scope: Scope) -> GoogleError {
        .failedPrecondition(
            "\(scope.project) asks for approvals (approvals: required in its configuration): nothing was published. Propose "
                + "it, `stalecast publish --propose FILE` or PUT with ?propose=true, and let another user approve it; a "
                + "rollback needs no approval, and is logged as a bypass.")
    }
}
