import StalecastLoad
import StalecastWire

/// An attempt as Control lists it, in words.
struct WebhookAttemptText {
    private let attempt: JSONValue

    /// Names of `phasesMs`, in the order of a request.
    private static let phases = ["dns", "connect", "tls", "server"]

    init(_ attempt: JSONValue) { self.attempt = attempt }

    var isSuccess: Bool { attempt["outcome"]?.string == "2xx" }

    /// `204`, or `503: …`, or `refused: the connection was refused`.
    var outcome: String {
        let text = attempt["status"]?.int64.map { String($0) } ?? attempt["outcome"]?.string ?? "?"
        guard let problem = attempt["problem"]?.string, problem != "status \(text)" else { return text }
        return "\(text): \(problem)"
    }

    var version: String {
        guard let version = attempt["versionNumber"]?.string else { return "" }
        return "\(attempt["namespace"]?.string ?? "?")/\(version)"
    }

    /// All phases together.
    var milliseconds: String { phase("total").map(Self.short) ?? "" }

    /// Several lines for one attempt.
    var page: [String] {
        let phases = Self.phases.compactMap { name in phase(name).map { "\(name) \(Self.short($0)) ms" } }
        var lines = ["outcome     \(outcome.printable)"]
        let queue = phase("queue").map { "; waited \(Self.short($0)) ms before" } ?? ""
        if !phases.isEmpty { lines.append("time        \(milliseconds) ms: \(phases.joined(separator: ", "))\(queue)") }
        if let id = attempt["messageId"]?.string { lines.append("webhook-id  \(id.printable)") }
        if let body = attempt["response"]?.string, !body.isEmpty { lines.append("answer      \(body.printable)") }
        return lines
    }

    private func phase(_ name: String) -> Double? {
        guard case .number(let text)? = attempt["phasesMs"]?[name] else { return nil }
        return Double(text)
    }

    private static func short(_ milliseconds: Double) -> String {
        Figure.fixed(milliseconds, milliseconds < 10 ? 2 : 0)
    }
}
