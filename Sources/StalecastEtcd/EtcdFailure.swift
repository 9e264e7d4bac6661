package import StalecastRecords

/// Reason why a call brought no answer.
package enum EtcdFailure: Error, Sendable, Hashable, CustomStringConvertible {
    /// Nothing was sent: no connection, or it went away before.
    case notSent(String)
    /// Its connection ended, or its own time did, before the answer.
    case noAnswer(String)
    /// The member's answer: a gRPC status that is not 0.
    case status(Int, String)
    /// The answer cannot be read.
    case malformed(String)
    /// The caller's task was cancelled; what was sent may be done anyway.
    case cancelled(isSent: Bool)

    package var description: String {
        switch self {
        case .notSent(let cause): "etcd could not be asked: \(cause)"
        case .noAnswer(let cause): "etcd did not answer: \(cause)"
        case .status(let code, let message): "etcd refused: \(message) (\(code))" + Self.advice(message)
        case .malformed(let cause): "etcd's answer cannot be read: \(cause)"
        case .cancelled: "the call to etcd was cancelled"
        }
    }

    private static func advice(_ message: String) -> String {
        let advice = [
            "authentication failed": "look at its user and password",
            "user name is empty": "it has users, so one of them and a password must be configured",
            "authentication is not enabled": "it has no users, so none must be configured",
            "permission denied": "grant the user's role readwrite on all keys that begin with the prefix, or what "
                + "deploy/docs/cluster.md says for an edge",
            "database space exceeded": "compact and defragment it, raise its quota and disarm its alarm",
        ]
        return advice.first { message.contains($0.key) }.map { "; \($0.value)" } ?? ""
    }

    /// Texts of etcd 3.4 to 3.7 (`api/v3rpc/rpctypes/error.go`), and of gRPC for a message beyond its limit, by which
    /// nothing was proposed. Everything else may have happened or happen yet, `database space exceeded` too.
    private static let harmless = [
        "request is too large", "too many requests", "too many operations", "permission denied", "invalid auth token",
        "user name is empty", "authentication failed", "authentication is not enabled", "no leader",
        "lease not found",
        "received message larger than max",
    ]

    /// Certainly nothing was changed.
    package var isCertain: Bool {
        switch self {
        case .notSent: true
        case .status(_, let message): Self.harmless.contains { message.contains($0) }
        case .cancelled(let isSent): !isSent
        case .noAnswer, .malformed: false
        }
    }

    package var logError: LogError { isCertain ? .notDone(description) : .unknown(description) }

    /// Whether gRPC answered UNAUTHENTICATED, because the token has expired.
    var asksForToken: Bool {
        if case .status(16, _) = self { return true }
        if case .status(_, let message) = self { return message.contains("invalid auth token") }
        return false
    }

    /// The member itself is the cause, so another one may do better.
    var isOfMember: Bool {
        switch self {
        case .notSent, .noAnswer, .malformed: true
        case .cancelled: false
        // Unavailable, deadline exceeded, cancelled by it, internal.
        case .status(let code, _): [14, 4, 1, 13].contains(code)
        }
    }
}
