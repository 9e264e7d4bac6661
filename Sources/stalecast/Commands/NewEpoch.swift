import ArgumentParser
import StalecastStore
import StalecastWire

struct NewEpoch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "new-epoch",
        abstract: "Begin a new history after an old snapshot was put back; the daemon must be stopped.",
        discussion: """
            A data directory that was put back as a whole (a snapshot of a disk or a machine, rsync) looks like the store \
            before it: the daemon would give numbers away a second time, with other contents. This command keeps the versions \
            and gives the store a new identity: clients that come back are told so (`reset`) and hear the current state \
            anew. It cannot know how far numbers went after the snapshot: say it with --above. Nodes of a cluster: \
            `stalecast cluster new-epoch`.

            Examples:
              stalecast new-epoch --above 15 --dry-run
              stalecast new-epoch --above 15 --data /var/lib/stalecast
            """)

    @OptionGroup var options: NewHistoryOptions

    func run() async throws {
        let (directory, output) = (options.directory, options.output)
        let question = "Begin a new history in \(directory)?"
        let report = try options.run(question, "nothing was changed", lines) { isRehearsal in
            try TemplateStore.beginNewEpoch(in: directory, above: options.version, isRehearsal: isRehearsal)
        }
        if output.isJSON { return try output.json(report.json(directory)) }
        try output.line(
            report.newEpoch.map { "a new history begins in \(directory), epoch \($0)" }
                ?? "nothing was changed; leave --dry-run out to begin a new history in \(directory)")
    }

    private func lines(_ report: NewEpochReport) -> [String] {
        let scopes = report.latest.sorted { "\($0.key)" < "\($1.key)" }.map { scope, latest in
            "\(scope): version \(latest) stays current, the next one is \(report.next(scope))"
        }
        if options.above > 0 || scopes.isEmpty { return scopes }
        return scopes + [
            "if clients hold higher numbers than these, say the highest with --above: else a number can mean two things"
        ]
    }
}

extension NewEpochReport {
    fileprivate func next(_ scope: Scope) -> VersionNumber { floors[scope] + 1 }

    /// `{"data","oldEpoch","epoch","nextVersion"}`; no `epoch` for `--dry-run`.
    fileprivate func json(_ directory: String) -> JSONValue {
        [
            "data": .string(directory), "oldEpoch": .string(oldEpoch.description),
            "epoch": newEpoch.map { .string($0.description) },
            "nextVersion": .object(latest.keys.reduce(into: JSONObject()) { $0[$1.description] = .int(next($1)) }),
        ]
    }
}
