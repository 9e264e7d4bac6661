import ArgumentParser
import StalecastWire

/// Waiting until a version has come to those it is for.
struct WaitOptions: ParsableArguments {
    /// Rule for when the time is up. Raw values are what is typed.
    enum OnTimeout: String, ExpressibleByArgument, CaseIterable { case fail, warn, rollback }

    enum Stage: String, ExpressibleByArgument, CaseIterable { case sent, received, fetched, active }

    static let usualShare = "99%"

    @Option(
        name: .customLong("wait"), defaultAsFlag: usualShare,
        help: .value(
            "share",
            "Wait until this share of those who hear of it has the version (99% when it is not said); with "
                + "--stages, until the release is over."))
    var share: String?

    @Option(
        help: "What they must have done: sent, received (streams), fetched, active (clients that say who they are).")
    var stage: Stage?

    @Option(help: .value("time", "How long to wait at most (default: a minute and the herd window)."))
    var timeout: Span?

    @Option(help: .value("count", "Fail when fewer clients, or streams, were connected."))
    var minClients = 0

    @Option(help: "What to do when the time is up: fail (exit 7), warn (exit 0), or rollback (and exit 7).")
    var onTimeout = OnTimeout.fail

    func validate() throws {
        if share == nil, stage != nil || timeout != nil || minClients != 0 || onTimeout != .fail {
            throw ValidationError("--stage, --timeout, --min-clients and --on-timeout are for --wait")
        }
        if minClients < 0 { throw ValidationError("--min-clients is 0 or more") }
        if let share, !Self.isShare(share) {
            throw ValidationError("--wait takes a share, for example 99% or 0.99")
        }
        if let timeout, timeout.duration > .seconds(3600) { throw ValidationError("--timeout is at most 1h") }
    }

    /// Whether the options say which clients are to have what, which the end of a release does not ask for.
    var isAboutClients: Bool {
        share.map { $0 != Self.usualShare || stage != nil || minClients != 0 } ?? false
    }

    /// Whether --stage is one of clients that say who they are.
    var isOfClients: Bool { stage == .fetched || stage == .active }

    /// Prints how the wait ended.
    ///
    /// - Throws: `failure`, unless `--on-timeout warn` makes it a remark.
    func conclude(_ sentence: String, _ failure: CommandFailure?, _ output: Output) throws(CommandFailure) {
        guard let failure else {
            if !output.isJSON { try output.line(sentence) }
            return
        }
        guard failure.status == .timedOut, onTimeout == .warn else { throw failure }
        output.remark("stalecast: \(failure.sentence)")
    }

    private static func isShare(_ text: String) -> Bool {
        guard let number = Double(text.hasSuffix("%") ? String(text.dropLast()) : text) else { return false }
        return number > 0 && number <= (text.hasSuffix("%") ? 100 : 1)
    }

    /// `--wait=50%` in two words: the parser (1.8) lets the value of an option go that may have none.
    static func spelledOut(_ arguments: [String]) -> [String] {
        let end = arguments.firstIndex(of: "--") ?? arguments.endIndex
        let words = arguments[..<end].flatMap { word in
            word.hasPrefix("--wait=") ? ["--wait", String(word.dropFirst("--wait=".count))] : [word]
        }
        return words + arguments[end...]
    }

    /// Word that was meant as the command's own and was taken for the share; nil when none was.
    static func taken(from arguments: [String]) -> String? {
        let words = arguments.prefix { $0 != "--" }
        guard let place = words.firstIndex(of: "--wait"), place + 1 < words.endIndex else { return nil }
        let next = words[place + 1]
        return next.hasPrefix("-") || next.first?.isNumber == true ? nil : next
    }

    var query: RequestQuery {
        [
            "target": share ?? Self.usualShare, "minClients": String(minClients), "stage": stage?.rawValue,
            "timeout": timeout?.inMilliseconds,
        ]
    }
}
