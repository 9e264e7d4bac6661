import ArgumentParser
import StalecastControl
import StalecastWire

/// `stalecast logs`: what happened to a scope, in words.
struct Logs: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "logs",
        abstract: "Show who changed what, in words: of one scope, or of the whole daemon.",
        discussion: """
            Reads the audit log of a data directory, so run it as the user that runs the daemon. With --project or --namespace \
            only what concerns that scope is shown; `stalecast audit` shows the lines as they are. Times are local, --utc makes \
            them UTC. The daemon's own log is its standard error: `journalctl -u stalecast`.

            Examples:
              stalecast logs
              stalecast logs --since 2h --project shop
              stalecast logs --follow
              stalecast logs --refused
              stalecast logs --json | jq -r .actor
            """)

    @Flag(help: "Go on with what is written from now on.")
    var follow = false

    @Flag(help: "Only what was refused or failed.")
    var refused = false

    @Option(help: .value("time", "Only from this time on: a time, or how long ago, such as 2h."))
    var since: PastTime?

    @OptionGroup var scopeOptions: ScopeOptions
    @OptionGroup var data: DataOptions
    @OptionGroup var outputOptions: OutputOptions

    func run() async throws {
        let isNamed = scopeOptions.namespace != nil || scopeOptions.project.project != nil
        let scope = isNamed ? try scopeOptions.scope() : nil
        try await AuditReader.each(in: data.running.path, follow: follow) { line throws(CommandFailure) in
            // `audit` shows what was cut off.
            guard let object = JSONValue.ifValid(line)?.object else { return }
            let entry = AuditSentence(object)
            if refused, !entry.isRefused { return }
            if let since, entry.time ?? since.time < since.time { return }
            if let scope, !entry.concerns(scope) { return }
            try show(entry, line)
        }
    }

    private func show(_ entry: AuditSentence, _ line: [UInt8]) throws(CommandFailure) {
        let output = outputOptions.output
        if output.isJSON { return try output.line(String(decoding: line, as: UTF8.self)) }
        let time = entry.time.map(LocalClock.asked.date) ?? "?"
        let sentence = entry.sentence.printable
        try output.line(
            "\(output.palette.dim(time))  \(entry.actor.printable)  "
                + (entry.isRefused ? output.palette.red(sentence) : sentence))
    }
}
