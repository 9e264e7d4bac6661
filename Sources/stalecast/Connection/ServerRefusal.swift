import StalecastAccess
import StalecastWire

/// An error answer: Google's envelope `{"error":{"code","message","status","details"}}` turned into sentences.
struct ServerRefusal {
    private let status: Int
    private let error: JSONValue?
    private let token: ControlToken?
    private let mayHaveChanged: Bool

    /// - Parameter mayHaveChanged: the request was a change, so that a proxy's own error leaves its outcome open.
    init(_ answer: HTTPAnswer, token: ControlToken? = nil, mayHaveChanged: Bool = false) {
        self.status = answer.status
        self.mayHaveChanged = mayHaveChanged
        self.error = JSONValue.ifValid(answer.body)?["error"]  // no envelope: the status alone is reported
        self.token = token
    }

    var failure: CommandFailure {
        CommandFailure(exitStatus, sentence, problems: lines.count > 1 ? lines : [], advice: advice)
    }

    static let lookFirst =
        "The change may have been made. `stalecast versions` (or `stalecast webhooks list`) shows it; look before you "
        + "repeat it."

    /// A release in stages is in the way of a publish.
    private var isReleaseOpen: Bool { message.hasPrefix(Self.releaseOpen) }
    private static let releaseOpen = "[RELEASE_OPEN]: "

    private var message: String { error?["message"]?.string ?? "" }

    private var exitStatus: ExitStatus {
        switch status {
        case 401, 403: .tokenRefused
        case 404: .notFound
        // No other client was first: the release is in a state that does not allow it.
        case 409 where error?["status"]?.string == "FAILED_PRECONDITION": .refused
        case _ where message.contains("VERSION_MISMATCH"), 409, 412: .versionMismatch
        case 504: .outcomeUnknown
        // A proxy says so also when the daemon ended after the commit; its 503 means that it asked no daemon.
        case 500... where error == nil && mayHaveChanged && status != 503: .outcomeUnknown
        case _ where saysOutcomeUnknown: .outcomeUnknown
        default: .refused
        }
    }

    private var saysOutcomeUnknown: Bool {
        let details = error?["details"]?.array ?? []
        return ([error].compactMap { $0 } + details).contains {
            $0["outcome"]?.string == "unknown" || $0["metadata"]?["outcome"]?.string == "unknown"
        }
    }

    /// The single problems: field violations where the server lists them, else the lines of its message.
    private var lines: [String] {
        let violations = (error?["details"]?.array ?? []).flatMap { $0.items("fieldViolations") }
        if violations.count > 1 {
            return violations.map { violation in
                let field = violation.word("field", "")
                let text = violation.word("description", "")
                return field.isEmpty || text.contains(field) ? text : "\(field): \(text)"
            }
        }
        return message.split(separator: "\n").map(String.init)
    }

    private var sentence: String {
        guard let error else {
            return "the server, or a proxy in front of it, answered with HTTP status \(status) and no explanation"
        }
        let word = error["status"]?.string ?? "HTTP \(status)"
        // What the server says of keys does not concern it.
        if status == 403, token?.isOfIssuer == true {
            return "the server refused (\(word)): the caller does not have permission"
        }
        if isReleaseOpen {
            // The server's advice is about requests, ours about commands.
            let fact = message.dropFirst(Self.releaseOpen.count).prefix { $0 != "." }
            return fact.prefix(1).lowercased() + fact.dropFirst()
        }
        let problems = lines
        if problems.count > 1 { return "the server refused (\(word)) for \(problems.count) reasons" }
        guard let problem = problems.first else { return "the server refused (\(word)) without an explanation" }
        return problem.hasPrefix("[") ? "the server refused: \(problem)" : "the server refused (\(word)): \(problem)"
    }

    private var advice: String? {
        switch exitStatus {
        case .notFound where message.contains("no such path") && token != nil:
            "Is that Control's address? Edge has other paths; Control's is the second line of <data>/endpoints.json."
        case .notFound where message.contains("no webhook"): "`stalecast webhooks list` shows those of a project."
        case .notFound where message.contains("no proposal"): "`stalecast proposals list --all` shows those of a scope."
        case .notFound where message.contains("released in stages"):
            "`stalecast publish FILE --stages 1%,10%,100%` begins one."
        case .notFound where message.contains("no release"): "`stalecast release status` shows the last one."
        case .notFound where message.contains("version"): "`stalecast versions` lists those that are stored."
        case .tokenRefused where token == nil:
            "An Edge that asks for a key is shown one with --api-key-file. Control's address would ask for a token: --edge "
                + "names Edge's."
        case .tokenRefused: token.map(status == 403 ? missingGrant : wrongCredential)
        case .versionMismatch where message.contains("Proposal "):
            "`stalecast proposals show NUMBER --json | jq .template` is its template, to be brought up to date and proposed "
                + "again."
        case .versionMismatch where isReleaseOpen:
            """
            Three ways out:
              `stalecast release promote` tells all clients of it now;
              `stalecast release rollback` takes it back from those that were told;
              `stalecast publish FILE --supersede` takes its place, for all clients at once.
            """
        case .versionMismatch:
            "Another version was published meanwhile. See `stalecast versions` and `stalecast diff`, then try again."
        case .outcomeUnknown: Self.lookFirst
        default: nil
        }
    }

    /// Text for a valid credential that has no grant: it does not send the user to the control token.
    private func missingGrant(_ token: ControlToken) -> String {
        token.isOfIssuer
            ? "The token from \(token.file) has no grant for this. Its issuer, or an operator by a rule of "
                + "auth.issuers, gives it one."
            : "The credential from \(token.file) has no grant for this. An operator grants it with another key: "
                + "`stalecast keys create --role ROLE`."
    }

    private func wrongCredential(_ token: ControlToken) -> String {
        if token.isOfIssuer {
            return "The token came from \(token.file). Is its issuer one of the daemon's auth.issuers, and has it not "
                + "expired?"
        }
        if token.isKey {
            return "The key came from \(token.file). Is it this daemon's, neither revoked nor expired? "
                + "`stalecast keys list` tells an operator."
        }
        return "The token came from \(token.file). Does it belong to this daemon? Its own lies in control.token in its "
            + "data directory; name it with --token-file FILE."
    }
}

extension ControlToken {
    /// A JWT; no key of ours has a dot.
    fileprivate var isOfIssuer: Bool { secret.count { $0 == "." } == 2 }
    fileprivate var isKey: Bool { secret.hasPrefix(APIKey.prefix) }
}
