import StalecastTemplate
import StalecastWire

/// Report of a publish, a rollback or a check: what it did or would do, or why there was nothing to do.
struct PublishReport {
    let scope: Scope
    let before: ServedTemplate
    /// The server's answer; nil when nothing was published because nothing differs.
    let after: ServedTemplate?
    let changes: TemplateChanges
    /// Names, sorted, of the parameters whose value may differ for some instance.
    let changedKeys: [String]
    /// Nothing was to be published.
    var isCheck = false
    /// Nothing was to be published before another person approves it.
    var proposes = false
    /// Counts of the clients that were told; nil when nothing was published or the daemon does not say.
    var reach: PublishCounts?
    /// Release of the version in stages; nil when all clients were told at once.
    var release: ReleaseReading?
    /// Clients that each stage would reach, or reaches; nil where there are none.
    var audience: StageAudience?
    /// End of the wait; nil without one.
    var wait: WaitOutcome?
    /// The differences have been read already.
    var wasShown = false

    /// Lines of differences that are shown; more of them are not read on the way.
    private static let maxLines = 60

    /// - Parameter content: what is published over `before`.
    init(
        scope: Scope, before: ServedTemplate, after: ServedTemplate?, content: Template, isCheck: Bool = false
    ) throws(CommandFailure) {
        (self.scope, self.before, self.after) = (scope, before, after)
        let old = try before.template()
        changes = TemplateChanges(from: old, to: content)
        changedKeys = TemplateDifference.changedKeys(from: old, to: content)
        self.isCheck = isCheck
    }

    func write(to output: Output) throws(CommandFailure) {
        if output.isJSON { return try output.json(json) }
        try output.line(headline(output.palette))
        if let release {
            try output.line("\(release.sentence()); `stalecast release status --follow` shows how it goes")
        } else if let reach {
            try output.line(reach.sentence)
        }
        if isCheck, let audience { try output.lines(audience.lines) }
        if !wasShown { try output.lines(difference(output.palette)) }
    }

    /// Changes before they are made.
    func preview(_ palette: Palette) -> [String] {
        difference(palette) + ["", "\(summary) since version \(before.version)"]
    }

    func difference(_ palette: Palette) -> [String] {
        let lines = changes.text.split(separator: "\n")
        let shown = lines.prefix(Self.maxLines).map { "  " + palette.difference(String($0)) }
        guard lines.count > Self.maxLines else { return shown }
        let newer = after.map { isCheck ? "FILE" : String($0.version) } ?? "FILE"
        return shown + ["  … \(lines.count - Self.maxLines) more lines: stalecast diff \(before.version) \(newer)"]
    }

    /// `{"scope","validateOnly","published","version","etag","told","wait","rolledBackTo","release","stages","since",
    /// "changedKeys","added","removed"}`; without `version`, `etag` and `told` when nothing was published, `release`
    /// and `stages` of a release in stages only. `since` is the version that everything was compared with.
    private var json: JSONValue {
        let published = isCheck ? nil : after
        var rolledBackTo: JSONValue?
        if case .rolledBack(let source, let version)? = wait?.ending {
            rolledBackTo = ["versionNumber": .string(String(version)), "rollbackSource": .string(String(source))]
        }
        return [
            "scope": .string(scope.description), "validateOnly": .bool(isCheck), "published": .bool(published != nil),
            "version": published?.json["version"], "etag": published.map { .string($0.etag) },
            "told": reach?.json, "wait": wait?.done, "rolledBackTo": rolledBackTo, "release": release?.document,
            "stages": audience?.json, "since": .string(String(before.version)),
            "changedKeys": .array(changedKeys.map(JSONValue.string)),
            "added": .array(changes.added.map(JSONValue.string)),
            "removed": .array(changes.removed.map(JSONValue.string)),
        ]
    }

    private func headline(_ palette: Palette) -> String {
        guard let after else {
            let nothing = "nothing differs from version \(before.version) of \(scope), which stays; nothing was "
            return nothing
                + (proposes
                    ? "proposed. --force proposes it anyway"
                    : "published. --force publishes it anyway, and every client fetches again")
        }
        if isCheck { return "valid for \(scope); nothing was published. Since version \(before.version): \(summary)" }
        let source = after.json["version"]?["rollbackSource"]?.int64
        let act = source.map { "rolled back to the content of version \($0): " } ?? "published "
        return "\(act)\(palette.green("version \(after.version)")) of \(scope), \(after.etag)"
            + (wasShown ? "" : "; since version \(before.version): \(summary)")
    }

    /// `1 parameter added, 2 changed, 1 removed`.
    private var summary: String {
        let (added, removed) = (changes.added.count, changes.removed.count)
        let counts = [(added, "added"), (changedKeys.count - added - removed, "changed"), (removed, "removed")]
        let parts = counts.filter { $0.0 > 0 }
        guard let first = parts.first else {
            return changes.isEmpty ? "nothing differs" : "no parameter's value differs"
        }
        return
            (["\(first.0) parameter\(first.0 == 1 ? "" : "s") \(first.1)"] + parts.dropFirst().map { "\($0.0) \($0.1)" })
            .joined(separator: ", ")
    }
}

extension TemplateChanges {
    /// Names of the parameters that are in the new template only.
    var added: [String] { parameters.filter { $0.old == nil }.map(\.name) }
    /// Names of the parameters that are in the old template only.
    var removed: [String] { parameters.filter { $0.new == nil }.map(\.name) }
}

extension Palette {
    func difference(_ line: String) -> String {
        switch line.first {
        case "+": green(line)
        case "-": red(line)
        case "~": yellow(line)
        default: line
        }
    }
}
