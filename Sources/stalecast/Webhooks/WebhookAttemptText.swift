import StalecastLoad
package import StalecastWire

/// An attempt as Control lists it, or a webhook's last failure, in words.
package struct WebhookAttemptText {
    private let attempt: JSONValue

    /// Names of `phasesMs`, in the order of a request.
    private static let phases = ["dns", "connect", "tls", "server"]

    package init(_ attempt: JSONValue) { self.attempt = attempt }

    var isSuccess: Bool { attempt["outcome"]?.string == "2xx" }

    /// Characters of a receiver's answer that are shown in a line.
    private static let answerLength = 80

    /// `204`, `500: database is locked`, or `refused: the connection was refused`.
    package var outcome: String {
        let said = problem ?? (isSuccess ? nil : answer.map { String($0.prefix(Self.answerLength)) })
        return said.map { "\(result): \($0)" } ?? result
    }

    private var result: String {
        attempt["status"]?.int64.map { String($0) } ?? attempt.word("outcome")
    }

    /// Nil where it would only repeat the status.
    private var problem: String? { attempt["problem"]?.string.flatMap { $0 == "status \(result)" ? nil : $0 } }

    private var answer: String? { attempt["response"]?.string.flatMap { $0.isEmpty ? nil : $0 } }

    /// Time of the next try, if there will be one: a version that was tried again or overtaken has none.
    ///
    /// - Parameters:
    ///   - newer: the attempts after it.
    ///   - mode: the webhook's.
    package func nextTry(after newer: some Sequence<JSONValue>, mode: String?, now: Timestamp) -> String {
        guard let next = attempt["nextAttemptTime"]?.string, let time = Timestamp(next), time > now,
            !newer.contains(where: { other in
                other["namespace"] == attempt["namespace"] && other["kind"] == attempt["kind"]
                    && (mode == "latest" || other["versionNumber"] == attempt["versionNumber"])
            })
        else { return "" }
        return clockTime(next)
    }

    var version: String {
        guard let version = attempt["versionNumber"]?.string else { return "" }
        return "\(attempt.word("namespace"))/\(version)"
    }

    /// All phases together.
    var milliseconds: String { phase("total").map(Self.short) ?? "" }

    /// Several lines for one attempt.
    var page: [String] {
        let phases = Self.phases.compactMap { name in phase(name).map { "\(name) \(Self.short($0)) ms" } }
        var lines = ["outcome     \((problem.map { "\(result): \($0)" } ?? result).printable)"]
        let queue = phase("queue").map { "; waited \(Self.short($0)) ms before" } ?? ""
        if !phases.isEmpty { lines.append("time        \(milliseconds) ms: \(phases.joined(separator: ", "))\(queue)") }
        if let id = attempt["messageId"]?.string { lines.append("webhook-id  \(id.printable)") }
        if let answer { lines.append("answer      \(answer.printable)") }
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
