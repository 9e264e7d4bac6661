import Logging
import ServiceLifecycle
import StalecastAccess
import StalecastControl
import StalecastEdge
import StalecastHub
import StalecastWire

/// Says in the log who was turned away, from what is counted anyway: at most one line per reason and period, however
/// many knock.
final class RefusalLog: Service {
    private static let period: Duration = .seconds(5)

    private let edge: EdgeServer
    private let logger: Logger
    private let access: Authorizer
    private let audit: AuditLog

    init(edge: EdgeServer, access: Authorizer, audit: AuditLog, logger: Logger) {
        (self.audit, self.edge, self.access, self.logger) = (audit, edge, access, logger)
    }

    func run() async throws {
        let begun = totals()
        var (counts, lines) = (RefusalCounts(begun), RefusalLines(begun))
        let periods = AsyncTimer(period: Self.period).cancelOnGracefulShutdown()
        var problem: String?
        for await _ in periods {
            let totals = totals()
            write(counts.rises(to: totals))
            writeLines(lines.due(of: totals, at: .now))
            tell(audit.rotationProblem, after: &problem)
        }
        let ended = totals()
        write(counts.rises(to: ended))
        writeLines(lines.due(of: ended, at: .now, isEnd: true))
    }

    /// The last of each reason, by the words of ``totals()``.
    private var examples: [String: String] {
        Dictionary(access.refusals.map { ($0.key.sentence, $0.value.example) }) { _, last in last }
    }

    /// Logs once that the audit log cannot begin a new file, and once that it can again.
    private func tell(_ problem: String?, after last: inout String?) {
        defer { last = problem }
        guard problem != last else { return }
        guard let problem else { return logger.notice("audit log continues in a new file") }
        logger.error(
            "audit log cannot begin a new file and continues in the full one", metadata: ["error": "\(problem)"])
    }

    private func write(_ rises: [(reason: String, count: Int)]) {
        let examples = examples
        for rise in rises {
            var metadata: Logger.Metadata = ["reason": "\(rise.reason)", "count": "\(rise.count)"]
            if let example = examples[rise.reason] { metadata["example"] = "\(example)" }
            let isObserved = rise.reason.hasSuffix(AuditSentence.observedOnly)
            logger.warning(isObserved ? "requests that enforce would refuse" : "requests refused", metadata: metadata)
        }
    }

    private func writeLines(_ rises: [(reason: String, count: Int)]) {
        let examples = examples
        for rise in rises {
            guard let example = examples[rise.reason] else { continue }
            audit.write(
                "refused", ["reason": .string(rise.reason), "count": .int(rise.count), "example": .string(example)])
        }
    }

    /// Counts of each reason since the start.
    private func totals() -> [String: Int] {
        let tally = edge.tally
        var totals = access.refusals.reduce(into: [String: Int]()) { $0[$1.key.sentence, default: 0] += $1.value.count }
        if let keys = tally.fetches.refused[403] { totals["edge: no API key, or an unknown one"] = keys }
        for (reason, count) in tally.refused { totals["edge: \(reason.sentence)"] = count }
        return totals
    }
}

/// Totals that only grow, and what has been added to them.
package struct RefusalCounts {
    private var last: [String: Int]

    package init(_ totals: [String: Int]) { last = totals }

    /// Reasons that rose since the last call, by name.
    package mutating func rises(to totals: [String: Int]) -> [(reason: String, count: Int)] {
        defer { last = totals }
        return totals.map { ($0.key, $0.value - (last[$0.key] ?? 0)) }.filter { $0.1 > 0 }.sorted { $0.0 < $1.0 }
    }
}

/// Lines for the audit log about refusals: the first of a reason soon, then all of an hour in one line. Anyone can
/// cause these lines, and each one uses room that lines about real changes need.
package struct RefusalLines {
    package static let period = Duration.seconds(3600)

    private var counts: RefusalCounts
    private var writtenAt: [String: ContinuousClock.Instant] = [:]
    private var waiting: [String: Int] = [:]

    package init(_ totals: [String: Int]) { counts = RefusalCounts(totals) }

    /// - Parameter isEnd: of the process; then everything is due.
    package mutating func due(
        of totals: [String: Int], at now: ContinuousClock.Instant, isEnd: Bool = false
    ) -> [(reason: String, count: Int)] {
        for rise in counts.rises(to: totals) { waiting[rise.reason, default: 0] += rise.count }
        let due = waiting.filter { isEnd || writtenAt[$0.key].map { now - $0 >= Self.period } ?? true }
        for reason in due.keys { (waiting[reason], writtenAt[reason]) = (nil, now) }
        return due.map { ($0.key, $0.value) }.sorted { $0.0 < $1.0 }
    }
}

extension DropReason {
    /// Sentence about a connection that was refused; names the key that an operator may raise.
    fileprivate var sentence: String {
        switch self {
        case .capacity: "as many connections as edge.maxConnections allows"
        case .addressCapacity: "one address has as many connections as edge.maxConnectionsPerAddress allows"
        case .untrustedPeer: "a connection from outside edge.trustedProxies, while edge.proxyProtocol is on"
        case .proxyHeader: "a connection from a proxy without a PROXY header"
        default: rawValue
        }
    }
}

extension Authorizer.RefusedKind {
    fileprivate var sentence: String {
        let words =
            switch reason {
            case .missing: "no credential"
            case .malformed: "a credential of no known form"
            case .ambiguous: "two credentials"
            case .typo: "a key with a typing error"
            case .unknown: "an unknown credential"
            case .notYet: "a key or token before its time"
            case .expired: "an expired key or token"
            case .revoked: "a revoked key"
            case .leaked: "a secret key in a URL, which should be replaced"
            case .notGranted: "no grant"
            case .unknownIssuer: "a token of an unknown issuer"
            case .wrongAlgorithm: "a token with an algorithm that its issuer does not use"
            case .unknownKey: "a token with an unknown key"
            case .badSignature: "a token with a wrong signature"
            case .wrongAudience: "a token for another audience"
            case .badClaims: "a token with claims that cannot be read"
            case .tooLong: "a token that is valid for too long"
            case .notReady: "a token that cannot be verified yet"
            case .overRate: "too many bad credentials from one address"
            }
        return "\(listener.rawValue): \(words)" + (isEnforced ? "" : AuditSentence.observedOnly)
    }
}
