/// Exit codes of the process, so that scripts can tell the cases apart. Printed by `--help`; `deploy/docs/cli.md` has
/// them too.
package enum ExitStatus: Int32, CaseIterable {
    case done = 0
    case refused = 1
    case usage = 2
    case unreachable = 3
    case tokenRefused = 4
    case versionMismatch = 5
    case notFound = 6
    case timedOut = 7
    case outcomeUnknown = 8
    case stopped = 9
    /// Exit code of `serve` too: EX_CONFIG of sysexits.h, which supervisors know not to retry.
    case misconfigured = 78

    /// One line of the table in the help text.
    var summary: String {
        switch self {
        case .done: "done"
        case .refused: "the server refused or the command failed; the sentence says why"
        case .usage: "wrong use of the command line"
        case .unreachable: "the daemon is not reachable"
        case .tokenRefused: "the control token is missing or was refused"
        case .versionMismatch: "another version came in between (--if-match no longer holds), or a release is open"
        case .notFound: "no such version, topic or project"
        case .timedOut: "the time was up before it was done"
        case .outcomeUnknown: "the change may or may not have been made; look before you repeat it"
        case .stopped: "a release in stages was paused or rolled back"
        case .misconfigured: "the configuration has problems; all of them are printed"
        }
    }

    /// All codes with their summaries, one per line.
    static let helpTable =
        allCases.map { "  \($0.rawValue)  \($0.summary)" }.joined(separator: "\n")
        + "\n  130  interrupted"
}

/// End of a command without success: what happened, the single problems, and what to do.
package struct CommandFailure: Error, CustomStringConvertible {
    package let status: ExitStatus
    /// A sentence without its full stop, lower case as it follows `stalecast: `.
    package let sentence: String
    /// Several problems found at once, each one line; empty when the sentence says it all.
    package let problems: [String]
    /// Step that helps; nil when none is known.
    package let advice: String?

    init(_ status: ExitStatus, _ sentence: String, problems: [String] = [], advice: String? = nil) {
        (self.status, self.sentence, self.problems, self.advice) = (status, sentence, problems, advice)
    }

    package var description: String { sentence }
}
