import ArgumentParser
import StalecastTemplate
import StalecastWire

/// `stalecast publish`: checks a template here and on the server, then publishes it.
struct Publish: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Publish a template from a file; subscribers hear of it at once.",
        discussion: """
            The file is checked here, then by the server; then it is published, provided that nobody published \
            since the current version was read (exit code 5 otherwise). A template that differs in nothing is not \
            published, unless --force; one that lacks parameters of the current version is published after a question \
            on a terminal, else only with --allow-removals.

            Examples:
              stalecast publish samples/templates/demo.json
              stalecast publish winter.json --description 'winter campaign'
              stalecast publish winter.json --validate-only
              stalecast publish winter.json --if-match '*'  # over whatever is current
              stalecast get | jq … | stalecast publish -
            """)

    @Argument(help: "The template as JSON; - reads standard input.", completion: .file())
    var file: String

    @Option(
        help: ArgumentHelp(
            "Publish only over this version: its ETag, or * for any (default: the version current when the command starts).",
            valueName: "etag"))
    var ifMatch: String?

    @Flag(help: "Check here and on the server, show what would change, publish nothing.")
    var validateOnly = false

    @Option(help: "What the new version is about, at most 1024 characters.")
    var description: String?

    @Flag(help: "Ask clients to fetch at once, whatever the herd window of the scope.")
    var urgent = false

    @Flag(help: "Publish also when nothing differs; every client fetches again.")
    var force = false

    @Flag(help: "Publish without a question although parameters of the current version are missing.")
    var allowRemovals = false

    @OptionGroup var scopeOptions: ScopeOptions
    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var outputOptions: OutputOptions

    func validate() throws {
        guard let ifMatch, !ifMatch.isEmpty, ifMatch.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return }
        throw ValidationError(
            "--if-match takes an ETag, not a version number: `stalecast get --version-number \(ifMatch)` tells it, "
                + "for example etag-123456789012-\(ifMatch)")
    }

    func run() async throws {
        let scope = try scopeOptions.scope()
        let file = try TemplateFile(file)
        let template = try file.template(for: scope.namespace)
        let api = TemplateAPI(client: try connection.controlClient(), scope: scope)
        let before = try await api.get()
        let request = file.request(description: description)
        let etag = ifMatch ?? before.etag
        let checked = try await api.put(request, ifMatch: etag, validateOnly: true)
        func report(_ after: ServedTemplate?) throws(CommandFailure) -> PublishReport {
            try PublishReport(scope: scope, before: before, after: after, content: template, isCheck: validateOnly)
        }
        let outlook = try report(checked)
        if validateOnly { return try outlook.write(to: outputOptions.output) }
        if outlook.changes.isEmpty, before.version > 0, !force {
            return try report(nil).write(to: outputOptions.output)
        }
        try permit(outlook.changes.removed, of: try before.template().allParameters.count)
        let after = try await api.put(request, ifMatch: etag, validateOnly: false, isUrgent: urgent)
        try report(after).write(to: outputOptions.output)
    }

    /// Asks on a terminal before parameters disappear from every app; elsewhere that takes a flag.
    private func permit(_ removed: [String], of count: Int) throws(CommandFailure) {
        guard !removed.isEmpty, !allowRemovals else { return }
        let sentence = "this removes \(removed.count) of \(count) parameters"
        guard Question.canBeAsked, file != "-" else {
            throw CommandFailure(
                .refused, sentence + "; nothing was published", problems: removed,
                advice: "--allow-removals publishes it. `stalecast diff current FILE` shows everything that differs.")
        }
        let names = removed.prefix(10).map(\.printable).joined(separator: ", ") + (removed.count > 10 ? ", …" : "")
        guard Question("\(sentence): \(names). Publish?").isAffirmed else {
            throw CommandFailure(.refused, "nothing was published")
        }
    }
}

/// `stalecast rollback`: publishes the content of an older version again.
struct Rollback: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Publish the content of an older version as a new version.",
        discussion: """
            The version number goes up, also on a rollback: rolling version 5 back to 3 makes version 6.

            Examples:
              stalecast rollback 3
              stalecast rollback 3 --json

            A version whose content is what is current already is not published again, unless --force.
            """)

    @Argument(help: "The number of the version to go back to; see `stalecast versions`.", completion: .versionNumbers)
    var version: Int64

    @Flag(help: "Publish also when nothing differs; every client fetches again.")
    var force = false

    @OptionGroup var scopeOptions: ScopeOptions
    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var outputOptions: OutputOptions

    func validate() throws {
        if version < 1 { throw ValidationError("a version number is 1 or more") }
    }

    func run() async throws {
        let scope = try scopeOptions.scope()
        let api = TemplateAPI(client: try connection.controlClient(), scope: scope)
        let before = try await api.get()
        let content = try await api.get(version).template()
        let outlook = try PublishReport(scope: scope, before: before, after: nil, content: content)
        if outlook.changes.isEmpty, !force { return try outlook.write(to: outputOptions.output) }
        let after = try await api.rollback(to: version)
        try PublishReport(scope: scope, before: before, after: after, content: content).write(to: outputOptions.output)
    }
}
