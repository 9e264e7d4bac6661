import StalecastTemplate
import StalecastWire

/// A proposal for people: who, over what, and what it changes.
struct ProposalReport {
    let json: JSONValue
    /// Changes from the version it was made over; nil when one of the two is gone.
    private let changes: TemplateChanges?

    init(_ proposal: JSONValue, _ api: TemplateAPI) async throws(CommandFailure) {
        json = proposal
        changes = try await Self.changes(of: proposal, api)
    }

    private static func changes(
        of proposal: JSONValue, _ api: TemplateAPI
    ) async throws(CommandFailure) -> TemplateChanges? {
        guard let template = proposal["template"], let base = proposal["baseVersion"]?.int64 else { return nil }
        var before = Template.empty
        if base > 0 {
            do { before = try await api.get(base).template() } catch {
                if error.status == .notFound { return nil }
                throw error
            }
        }
        do { return TemplateChanges(from: before, to: try Template(stored: template)) } catch {
            throw CommandFailure(.refused, "the server's proposal cannot be read: \(error.message)")
        }
    }

    private static let maxLines = 200

    func lines(_ palette: Palette) -> [String] {
        let number = json.word("number")
        var lines = [
            "\(palette.bold("proposal \(number)")), \(Self.state(json)), over version \(json.word("baseVersion"))",
            "by \(Self.name(json["author"])), \(clockTime(json.word("createTime", "")))",
        ]
        if let text = json["description"]?.string, !text.isEmpty { lines.append(text.printable) }
        if json["decision"] == nil, let time = json["publishTime"]?.string {
            lines.append("publishes itself at \(clockTime(time))")
        }
        lines += decision
        if json["stale"]?.bool == true {
            let since = names("changedSince")
            lines.append(
                palette.yellow("another version is current now") + (since.isEmpty ? "" : "; changed since: \(since)"))
        }
        guard let changes else { return lines + ["changes: \(names("changedKeys"))"] }
        if changes.isEmpty { return lines + ["no difference"] }
        let all = changes.text.split(separator: "\n").map { "  " + palette.difference(String($0)) }
        let more =
            all.count > Self.maxLines ? ["  … \(all.count - Self.maxLines) more lines: --json has the template"] : []
        return lines + all.prefix(Self.maxLines) + more
    }

    private var decision: [String] {
        guard let decision = json["decision"] else { return [] }
        let version = decision["versionNumber"]?.string.map { " as version \($0)" } ?? ""
        let reason = decision["reason"]?.string.map { ": \($0.printable)" } ?? ""
        return [
            "\(Self.state(json))\(version) by \(Self.name(decision)), \(clockTime(decision.word("time", "")))\(reason)"
        ]
    }

    private func names(_ member: String) -> String {
        json.words(member).map(\.printable).joined(separator: ", ")
    }

    /// `open`, `stale`, `approved`, `rejected`, `expired`.
    static func state(_ proposal: JSONValue) -> String {
        proposal["stale"]?.bool == true ? "stale" : proposal.word("state").lowercased()
    }

    /// `Ada (key:4fT0aZ81Qx)`.
    static func name(_ person: JSONValue?) -> String {
        let user = UpdateUser(json: person)
        let (name, principal) = (user.name.isEmpty ? user.email : user.name, person?["principal"]?.string ?? "?")
        return name.isEmpty ? principal.printable : "\(name.printable) (\(principal.printable))"
    }
}

extension TemplateAPI {
    /// Keeps a template for another person to approve.
    func propose(
        _ template: JSONValue, ifMatch: String, isUrgent: Bool = false, at time: Timestamp? = nil
    ) async throws(CommandFailure) -> JSONValue {
        let query: RequestQuery = ["publishTime": time?.description, "propose": time == nil ? "true" : nil]
        return try await client.send(
            "PUT", path, query: query, ifMatch: ifMatch, headers: isUrgent ? [.urgent] : [], body: template,
            changes: true
        ).json()
    }

    /// Newest first.
    func proposals(isOpen: Bool) async throws(CommandFailure) -> [JSONValue] {
        let query: RequestQuery = ["state": isOpen ? "OPEN" : nil]
        return try await client.list("proposals", path + "/proposals", query, pageSize: 300).items
    }

    func proposal(_ number: Int64) async throws(CommandFailure) -> JSONValue {
        try await read("/proposals/\(number)")
    }

    /// - Parameter verb: `approve` or `reject`.
    func decide(
        _ number: Int64, _ verb: String, _ body: JSONValue = [:]
    ) async throws(CommandFailure) -> JSONValue {
        try await client.send("POST", path + "/proposals/\(number):\(verb)", body: body, changes: true).json()
    }
}
