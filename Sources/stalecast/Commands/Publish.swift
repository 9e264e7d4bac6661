import ArgumentParser
import StalecastTemplate
import StalecastWire

/// `stalecast publish`: checks a template here and on the server, then publishes it.
struct Publish: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Publish a template from a file; subscribers hear of it at once.",
        discussion: """
            The file is checked here, then by the server; then it is published, provided that nobody published \
            since the current version was read (exit code 5 otherwise).

            Examples:
              stalecast publish samples/templates/demo.json
              stalecast publish winter.json --description 'winter campaign'
              stalecast publish winter.json --validate-only
              stalecast publish winter.json --if-match '*'  # over whatever is current
              stalecast get | jq … | stalecast publish -
            """)

    @Argument(help: "The template as JSON; - reads standard input.")
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

    @OptionGroup var scopeOptions: ScopeOptions
    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var outputOptions: OutputOptions

    func run() async throws {
        let scope = try scopeOptions.scope()
        let file = try TemplateFile(file)
        let template = try file.template(for: scope.namespace)
        let api = TemplateAPI(client: try connection.controlClient(), scope: scope)
        let before = try await api.get()
        let request = file.request(description: description)
        let etag = ifMatch ?? before.etag
        var after = try await api.put(request, ifMatch: etag, validateOnly: true)
        if !validateOnly { after = try await api.put(request, ifMatch: etag, validateOnly: false, isUrgent: urgent) }
        let changedKeys = TemplateDifference.changedKeys(from: try before.template(), to: template)
        try PublishReport(scope: scope, before: before, after: after, changedKeys: changedKeys, isCheck: validateOnly)
            .write(to: outputOptions.output)
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
            """)

    @Argument(help: "The number of the version to go back to; see `stalecast versions`.")
    var version: Int64

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
        let after = try await api.rollback(to: version)
        let changedKeys = TemplateDifference.changedKeys(from: try before.template(), to: try after.template())
        try PublishReport(scope: scope, before: before, after: after, changedKeys: changedKeys)
            .write(to: outputOptions.output)
    }
}
