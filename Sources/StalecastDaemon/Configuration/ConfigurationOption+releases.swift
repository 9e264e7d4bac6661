import StalecastStore
import StalecastWire
import Yams

extension ConfigurationOption {
    /// The row of `releases`, whose entries are mappings.
    static let releases = ConfigurationOption(
        entries: "releases", \.releases,
        [
            .required("scope", "PROJECT/NAMESPACE; unique", "The scope whose versions are released."),
            .optional(
                "default", "instant or staged", or: "instant",
                "Whether a publish that does not say how reaches all clients at once, or in stages."),
            .optional(
                "stages", "list of percentages", or: "[1%, 10%, 50%, 100%]",
                "Shares of the clients, ascending; the last is 100%."),
            .optional(
                "every", "duration, 0s to 30d", or: "5m", "How long a stage lasts; 0s waits for an operator after each."
            ),
            .optional(
                "bake", "duration, 0s to 30d", or: "10m",
                "How long a version that all clients have can be taken back as a release."),
            .optional("first", "list of names", or: "[]", "Ids of clients that belong to the first stage."),
            .optional(
                "anonymous", "last or address", or: "last",
                "Clients that say no id are told with the last stage; address splits them by their addresses, "
                    + "which is right only where they fetch without an id too."),
            .optional("gates", "mapping", "Limits that stop a release."),
            .optional(
                "onTooLittle", "go or hold", or: "go",
                "Whether a release goes on where too few clients were told to judge."),
        ],
        .restart, "Scopes whose versions are released in stages, and how.",
        spell: { "{scope: \($0.scope), default: \($0.isStagedByDefault ? "staged" : "instant")}" },
        read: { $1.plan($0) })
}

extension ConfigurationReading {
    /// Plans that would never be followed.
    mutating func checkReleases() {
        guard sound("releases", "sources.scopes", "projects") else { return }
        for (place, plan) in configuration.releases.enumerated() {
            if configuration.sources.scopes.contains(where: { $0.scope == plan.scope && $0.isFed }) {
                note(
                    "releases[\(place)].scope: versions of \(plan.scope) come from its source and are not staged here; "
                        + "remove one of the two", at: "releases[\(place)].scope")
            }
            let project = configuration.projects.first { $0.id == plan.scope.project }
            if plan.isStagedByDefault, project?.approvals == .required {
                note(
                    "releases[\(place)].default: publishes in \(plan.scope.project) need an approval, and what is approved "
                        + "is released to all clients at once; leave out \"default: staged\", or the project's "
                        + "\"approvals: required\"", at: "releases[\(place)].default")
            }
        }
    }

    fileprivate mutating func plan(_ entry: Entry) -> ReleasePlan? {
        let scope = value("scope", of: entry, parse: scope)
        let isStaged = value("default", of: entry, or: false, parse: isStagedWord)
        let policy = policy(entry)
        guard let scope, let isStaged, let policy else { return nil }
        mentionedScopes.append(("\(entry.path).scope", scope))
        guard claim("\(scope)", "scope", of: entry) else { return nil }
        return ReleasePlan(scope: scope, policy: policy, isStagedByDefault: isStaged)
    }

    private mutating func policy(_ entry: Entry) -> ReleasePolicy? {
        let fields = entry.fields.filter { ReleasePolicy.members.contains($0.key) }
        do throws(InvalidValue) {
            return try ReleasePolicy(json: .object(fields.reduce(into: [:]) { $0[$1.key] = Self.json($1.value) }))
        } catch {
            note("\(entry.path).\(error.description)", at: entry.path)
            return nil
        }
    }

    private static func json(_ node: Node) -> JSONValue {
        if let sequence = node.sequence { return .array(sequence.map(json)) }
        if let mapping = node.mapping {
            return .object(mapping.reduce(into: [:]) { $0[$1.key.scalar?.string ?? ""] = json($1.value) })
        }
        return node.isNothing ? .null : .string(node.scalar?.string ?? "")
    }
}

private func isStagedWord(_ text: String) throws(InvalidValue) -> Bool {
    guard ["staged", "instant"].contains(text) else { throw InvalidValue("\"\(text)\" must be instant or staged") }
    return text == "staged"
}
