import ArgumentParser
import StalecastWire

/// `stalecast get`: the active template or an older one.
struct Get: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Print or save a template.",
        discussion: """
            The document is what Control serves, with its `version` member; `publish` takes it back as it is.

            Examples:
              stalecast get
              stalecast get -o current.json
              stalecast get --version-number 3 | jq .parameters
            """)

    @Option(
        help: ArgumentHelp("An older version (default: the active one).", valueName: "number"),
        completion: .versionNumbers)
    var versionNumber: Int64?

    @Option(
        name: [.customShort("o"), .long], help: ArgumentHelp("Write to this file.", valueName: "file"),
        completion: .file())
    var output: String?

    @OptionGroup var scopeOptions: ScopeOptions
    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var outputOptions: OutputOptions

    func validate() throws {
        if let versionNumber, versionNumber < 1 { throw ValidationError("a version number is 1 or more") }
    }

    func run() async throws {
        let scope = try scopeOptions.scope()
        let api = TemplateAPI(client: try connection.controlClient(), scope: scope)
        let served = try await api.get(versionNumber)
        guard let output else { return try outputOptions.output.json(served.json) }
        try OutputFile.write(served.json.encoded(.pretty) + [0x0A], to: output)
        outputOptions.output.remark("version \(served.version) of \(scope), \(served.etag), written to \(output)")
    }
}
