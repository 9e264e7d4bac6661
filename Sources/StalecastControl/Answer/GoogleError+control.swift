package import StalecastHTTP
import StalecastWire

extension GoogleError {
    /// Missing or wrong bearer token. The sentence is the same for both, and for every path.
    package static let unauthenticated = GoogleError(
        401,
        "Request had invalid authentication credentials. Send `Authorization: Bearer <control token>`; "
            + "the daemon wrote the token to control.token in its data directory. "
            + "This is Control; clients fetch and subscribe at Edge, the public listener."
    ).with("WWW-Authenticate", "Bearer realm=\"stalecast\"").closing()

    /// The scope's versions come from a source, which a publish here would contradict.
    static func fed(_ scope: Scope, by source: String) -> GoogleError {
        GoogleError(
            400, "FAILED_PRECONDITION",
            "The versions of \(scope) come from \(source), and cannot be published or rolled back here: publish there, "
                + "or remove the scope from sources in the configuration.")
    }
}
