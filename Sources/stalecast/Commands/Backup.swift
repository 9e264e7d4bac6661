import ArgumentParser
import Foundation
import StalecastStore
import StalecastWire

struct Backup: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup",
        abstract: "Copy the store and the webhooks into one file, from here or elsewhere, even while the daemon runs.",
        discussion: """
            The copy is consistent: it holds every version acknowledged before it began, and every webhook with the state of \
            its deliveries. Secrets in it stay sealed. NOT in it: webhooks.key, which opens them, the control token, the audit \
            log, and the configuration file; keep those apart.

            Examples:
              stalecast backup stalecast-$(date +%F).backup
              stalecast backup /backup/stalecast.backup --data /var/lib/stalecast
              stalecast backup my.backup --context prod
              stalecast backup verify /backup/stalecast.backup
            """,
        subcommands: [Make.self, Verify.self], defaultSubcommand: Make.self)

    struct Make: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "make",
            abstract: "Copy the store and the webhooks into one file.",
            discussion: """
                A data directory is copied where it lies. Where --control or --context names a daemon, or no data directory is \
                here, the daemon makes the backup beside its store and sends it; that asks for the control token, or for a \
                key that may operate.

                In a folder the file is named after its time. --keep removes older ones of such names, but only after a new one \
                was read through. --every makes one at each interval until SIGTERM or Ctrl-C. The first one must succeed; a later \
                one that fails is reported on standard error, and tried again at the next interval. A timer of systemd, or a CronJob, does the same without a process that waits.

                Examples:
                  stalecast backup stalecast-$(date +%F).backup
                  stalecast backup stalecast.backup --context prod
                  stalecast backup /var/backups/stalecast --keep 30
                  stalecast backup /backup --every 6h --keep 28
                """)

        @Argument(help: "The file to write, which must not exist yet, or a folder.", completion: .file())
        var file: String

        @Option(help: .value("number", "Backups that stay in the folder (default: all)."))
        var keep: Int?

        @Option(help: .value("time", "Make one now, and another each time this interval has passed, until stopped."))
        var every: Span?

        @OptionGroup var connection: ConnectionOptions

        func validate() throws {
            if let keep, keep < 1 { throw ValidationError("--keep takes 1 or more") }
            if let every, every.seconds < 1 { throw ValidationError("--every takes a second or more") }
        }

        func run() async throws {
            guard let folder = BackupFolder(file, keep: keep) else {
                if keep == nil, every == nil { return try await make(file) }
                throw CommandFailure(
                    .refused, "--keep and --every are for a folder, and \(file) is none: make it first")
            }
            try await make(in: folder)
            guard let every else { return }
            let output = connection.output
            // A signal ends the process: a file has its name only when it is whole.
            while true {
                try await Task.sleep(for: every.duration)
                do { try await make(in: folder) } catch let failure as CommandFailure {
                    output.remark("stalecast: \(failure.sentence)")
                }
            }
        }

        private func make(in folder: BackupFolder) async throws {
            try await make(folder.file(at: .now()))
            let removed = folder.removeOld()
            if !removed.isEmpty { connection.output.remark("removed \(removed.joined(separator: ", "))") }
        }

        private func make(_ file: String) async throws {
            let isRemote = connection.data.path == nil && (connection.namesDaemon || !connection.data.directory.exists)
            let source: (kind: String, name: String)
            let summary: BackupSummary
            if isRemote {
                let client = try connection.controlClient()
                source = ("control", client.address.url)
                summary = try await BackupTransfer(client: client, file: file).run()
            } else {
                source = ("data", connection.data.directory.path)
                summary = try copy(source.name, to: file)
            }
            try report(summary, file, source)
        }

        private func copy(_ directory: String, to file: String) throws(CommandFailure) -> BackupSummary {
            do { try TemplateStore.backup(directory: directory, to: file) } catch {
                throw CommandFailure(.refused, "no backup made: \(error)")
            }
            do { return try TemplateStore.verifyBackup(file) } catch {
                throw CommandFailure(.refused, "\(file) was written, and is not verified: \(error)")
            }
        }

        private func report(_ summary: BackupSummary, _ file: String, _ source: (kind: String, name: String)) throws {
            let output = connection.output
            let key = summary.webhooks ?? 0 > 0 ? ["webhooks.key"] : []
            let missing = key + ["control.token", "audit.jsonl", "the configuration file"]
            if output.isJSON {
                var object = summary.json(file)
                object[source.kind] = .string(source.name)
                object["notInIt"] = .array(missing.map(JSONValue.string))
                return try output.json(.object(object))
            }
            try output.line("\(source.name) is copied to \(file), and the copy was read through: \(summary.text)")
            let names = missing.map {
                $0 == "webhooks.key" ? "\($0) (without it the webhooks' secrets cannot be opened)" : $0
            }
            try output.line("not in it, keep apart: \(names.joined(separator: ", "))")
        }
    }

    struct Verify: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "verify",
            abstract: "Read a backup through and say what it holds.",
            discussion: """
                The checksum shows that no byte has changed since the backup was made. Backups of 0.2.0 and older have none: \
                there a changed value may not be noticed, and this says so.

                Examples:
                  stalecast backup verify stalecast.backup
                """)

        @Argument(help: "A file made by `stalecast backup`.", completion: .file())
        var file: String

        @OptionGroup var outputOptions: OutputOptions

        func run() async throws {
            let summary: BackupSummary
            do { summary = try TemplateStore.verifyBackup(file) } catch { throw CommandFailure(.refused, "\(error)") }
            try outputOptions.output.show(
                .object(summary.json(file)), ["\(file) is sound: \(summary.text)"] + summary.uncheckedLines)
        }
    }
}

/// Options of the commands that begin a new history of a stopped daemon's store.
struct NewHistoryOptions: ParsableArguments {
    @Option(help: "The highest version number clients may hold; the next version is above it.")
    var above: Int64 = 0

    @Flag(help: "Say what would be done, and change nothing.")
    var dryRun = false

    @OptionGroup var agreement: YesOption
    @OptionGroup var data: DataOptions
    @OptionGroup var outputOptions: OutputOptions

    var version: VersionNumber { VersionNumber(clamping: above) }
    var directory: String { data.directory.path }
    var output: Output { outputOptions.output }

    func validate() throws {
        guard VersionNumber(exactly: above) != nil else {
            throw ValidationError("--above takes a version number from 0 to \(VersionNumber.max)")
        }
    }

    /// Does it once it is agreed to, or only says what it would do with `--dry-run`.
    ///
    /// - Parameters:
    ///   - question: asked after the lines about a rehearsal.
    ///   - failure: begins the sentence of a failure.
    ///   - lines: report for people; shown before the question, or without one.
    ///   - act: told whether it is a rehearsal, which changes nothing.
    func run<Report>(
        _ question: String, _ failure: String, _ lines: (Report) -> [String],
        _ act: (_ isRehearsal: Bool) throws -> Report
    ) throws(CommandFailure) -> Report {
        func acted(_ isRehearsal: Bool) throws(CommandFailure) -> Report {
            do { return try act(isRehearsal) } catch { throw CommandFailure(.refused, "\(failure): \(error)") }
        }
        let isAsked = !dryRun && agreement.asks(output)
        if isAsked {
            try output.lines(lines(try acted(true)))
            try Question(question).agree()
        }
        let report = try acted(dryRun)
        if !isAsked, !output.isJSON { try output.lines(lines(report)) }
        return report
    }
}

struct Restore: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore",
        abstract: "Put a backup in place of the store and the webhooks; the daemon must be stopped.",
        discussion: """
            The store gets a new identity: clients that come back with a cursor of the former one are told so \
            (`reset`) and hear the current state anew. Version numbers go on above all the replaced store gave away, because \
            clients take no lower number for news. In a directory that never had the store, that number is not known: \
            say it with --above. The replaced store stays beside it, with before-restore in its name; of those the newest \
            three stay. webhooks.key and the control token are not touched.

            Examples:
              stalecast restore stalecast-2026-11-20.backup --dry-run
              stalecast restore /backup/stalecast.backup --data /var/lib/stalecast
            """)

    @Argument(help: "A file made by `stalecast backup`.", completion: .file())
    var file: String

    @OptionGroup var options: NewHistoryOptions

    func run() async throws {
        let (directory, output) = (options.directory, options.output)
        let question = "Put it in the place of the store in \(directory)?"
        let report = try options.run(question, "not restored", lines) { isRehearsal in
            try TemplateStore.restore(from: file, to: directory, above: options.version, isRehearsal: isRehearsal)
        }
        if output.isJSON { return try output.json(report.json(file, directory, isRehearsal: options.dryRun)) }
        if let kept = report.kept {
            try output.line("\(kept.hasSuffix("-wal") ? "the log of the lost store" : "the replaced store") is \(kept)")
        }
        for removed in report.removed { try output.line("removed \(removed), of a former restore") }
        try output.line(
            options.dryRun
                ? "nothing was changed; leave --dry-run out to restore into \(directory)"
                : "\(file) is now the store in \(directory); start it with `stalecast serve --data \(directory)`")
    }

    private func lines(_ report: RestoreReport) -> [String] {
        ["\(file): \(report.summary.text)"] + report.summary.uncheckedLines + report.numberLines
            + [webhookLine(report, options.directory)]
    }

    private func webhookLine(_ report: RestoreReport, _ directory: String) -> String {
        guard let count = report.summary.webhooks else {
            return "it has no webhooks; those in \(directory), if there are any, stay as they are"
        }
        guard count > 0 else { return "it has no webhooks" }
        let key = FileManager.default.fileExists(atPath: directory + "/webhooks.key")
        return "webhooks: \(count), and their secrets need the webhooks.key of then"
            + (key ? "; the one in \(directory) must be that one" : ", which is not in \(directory): put it there")
    }
}

extension BackupSummary {
    /// Text, for example `2 scopes (demo/firebase at version 5), 17 versions, 3 webhooks, made 2026-11-20T13:00:00Z`.
    fileprivate var text: String {
        let named = scopes.prefix(5).map { "\($0.scope) at version \($0.latest)" }
        let more = scopes.count > named.count ? ["\(scopes.count - named.count) more"] : []
        let list =
            scopes.isEmpty
            ? "no versions"
            : (named + more).joined(separator: ", ") + "; \(versions) version\(versions == 1 ? "" : "s") in all"
        let hooks = webhooks.map { ", \($0) webhook\($0 == 1 ? "" : "s")" } ?? ", no webhooks"
        return list + hooks + (madeAt.map { "; made \($0.description.prefix(19))Z" } ?? "")
    }

    fileprivate var uncheckedLines: [String] {
        hasChecksum
            ? []
            : [
                "it has no checksum, like backups of 0.2.0 and older: pages, versions and webhooks were read, but a changed "
                    + "value may not be noticed"
            ]
    }

    /// `{"file","madeAt","scopes":[{"scope","version","versions"}],"webhooks","checksum"}`; without what the backup does
    /// not say.
    fileprivate func json(_ file: String) -> JSONObject {
        [
            "file": .string(file), "madeAt": madeAt.map { .string($0.description) },
            "scopes": .array(
                scopes.map {
                    ["scope": .string($0.scope.description), "version": .int($0.latest), "versions": .int($0.versions)]
                }), "webhooks": webhooks.map { .int($0) }, "checksum": .bool(hasChecksum),
        ]
    }
}

extension RestoreReport {
    /// The backup's members, `data`, `restored` (false for `--dry-run`), by scope the `nextVersion`, and the files
    /// `kept` and `removed`.
    fileprivate func json(_ file: String, _ directory: String, isRehearsal: Bool) -> JSONValue {
        var object = summary.json(file)
        object["data"] = .string(directory)
        object["restored"] = .bool(!isRehearsal)
        object["nextVersion"] = .object(
            summary.scopes.reduce(into: JSONObject()) {
                $0[$1.scope.description] = .int(max(floors[$1.scope], $1.latest) + 1)
            })
        object["knowsReplaced"] = .bool(knowsReplaced)
        object["kept"] = kept.map(JSONValue.string)
        object["removed"] = .array(removed.map(JSONValue.string))
        return .object(object)
    }

    /// Lines about the next numbers, and about those that cannot be known.
    fileprivate var numberLines: [String] {
        var lines = summary.scopes.compactMap { scope -> String? in
            let floor = floors[scope.scope]
            guard floor > scope.latest else { return nil }
            return
                "\(scope.scope): the backup ends at version \(scope.latest), the next one is \(floor + 1), because clients "
                + "may hold up to \(floor)"
        }
        if !knowsReplaced, floors.ofAll == 0, !summary.scopes.isEmpty {
            lines.append(
                "versions published after the backup are not known here: clients that hold a higher one will not "
                    + "notice a new version until the number has caught up; restore with --above NUMBER to be above it")
        }
        return lines
    }
}
