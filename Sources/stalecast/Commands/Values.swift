import ArgumentParser
import StalecastTemplate
import StalecastWire

struct SetValues: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set",
        abstract: "Change single values and publish, over exactly the version that was read.",
        discussion: """
            Everything else stays as it is. A parameter that is not there is made with --create. If another version \
            came in between, nothing is published (exit code 5).

            Examples:
              stalecast set max_items=21
              stalecast set max_items=21 welcome_text='Hello there' --yes
              stalecast set max_items=50 --condition ios_france
              stalecast set beta=true --create boolean
              stalecast set max_items=21 --wait 99% --timeout 2m
              stalecast set --schema screens=@screens.schema.json
              stalecast set max_items=21 --propose  # for another person to approve
            """)

    @Argument(
        help: .value("key=value", "What to set; the value is text up to the end of the word."), completion: .parameters)
    var pairs: [String]

    @Option(help: .value("name", "Set the value for this condition (default: the default)."), completion: .conditions)
    var condition: String?

    @Flag(help: "Set the JSON Schema of a JSON parameter, not its value; @FILE reads a file.")
    var schema = false

    @Option(help: .value("type", "Make parameters that are not there: string, number, boolean or json."))
    var create: ValueType?

    @OptionGroup var proposing: VersionOptions
    @OptionGroup var wait: WaitOptions
    @OptionGroup var options: PublishingOptions

    enum ValueType: String, ExpressibleByArgument, CaseIterable { case string, number, boolean, json }

    func validate() throws {
        if schema, condition != nil { throw ValidationError("--schema is about no condition's value") }
        if schema, create != nil { throw ValidationError("--schema is about parameters that are there, not --create") }
        try proposing.judge(wait)
    }

    func run() async throws {
        // `validate` runs before an unknown option is named, and would take its value for a pair.
        if let wrong = pairs.first(where: { !$0.contains("=") || $0.hasPrefix("=") }) {
            throw ValidationError("\"\(wrong)\" is not KEY=VALUE; `stalecast get KEY` prints a value")
        }
        let condition = schema ? SchemaCondition.name : condition
        try await options.change(proposing, wait: wait) { edit throws(CommandFailure) in
            for pair in pairs {
                let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
                let text = schema ? try Self.schema(parts[1]) : parts[1]
                try edit.set(parts[0], to: text, if: condition, making: create?.rawValue.uppercased())
            }
        }
    }

    private static func schema(_ text: String) throws(CommandFailure) -> String {
        guard text.hasPrefix("@") else { return text }
        let file = String(decoding: try InputFile.read(String(text.dropFirst())), as: UTF8.self)
        // The newline at the end is the file's, not the schema's.
        return file.last?.isNewline == true ? String(file.dropLast()) : file
    }
}

struct UnsetValues: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unset",
        abstract: "Remove parameters, or their values for a condition, and publish.",
        discussion: """
            Apps then use what they were built with.

            Examples:
              stalecast unset old_flag
              stalecast unset max_items --condition ios_france
              stalecast unset screens --schema
            """)

    @Argument(help: .value("key", "The parameters."), completion: .parameters)
    var keys: [String]

    @Option(help: .value("name", "Remove only the value for this condition."), completion: .conditions)
    var condition: String?

    @Flag(help: "Remove only the JSON Schema.")
    var schema = false

    @OptionGroup var proposing: VersionOptions
    @OptionGroup var wait: WaitOptions
    @OptionGroup var options: PublishingOptions

    func validate() throws {
        if schema, condition != nil { throw ValidationError("--schema is about no condition's value") }
        try proposing.judge(wait)
    }

    func run() async throws {
        let condition = schema ? SchemaCondition.name : condition
        try await options.change(proposing, wait: wait) { edit throws(CommandFailure) in
            for key in keys { try edit.unset(key, if: condition) }
        }
    }
}

extension PublishingOptions {
    /// Publishes or proposes the current version with a change, by compare-and-set on its ETag.
    func change(
        _ proposing: VersionOptions, wait: WaitOptions,
        _ body: (inout TemplateEdit) throws(CommandFailure) -> Void
    ) async throws(CommandFailure) {
        let api = try api()
        let before = try await api.get()
        var edit = TemplateEdit(before.json)
        try body(&edit)
        let file = TemplateFile(.object(edit.document), named: "the changed template")
        let request = file.request(description: proposing.description)
        var publishing = Publishing(
            api: api, before: before, content: try file.template(for: api.scope.namespace), options: self,
            allowsRemovals: true, wait: wait)
        if proposing.isAsked {
            return try await publishing.propose(request, ifMatch: before.etag, at: proposing.at?.time)
        }
        if wait.isOfClients {
            // What the server refuses it refuses again below.
            let checked = try? await api.put(request, ifMatch: before.etag, validateOnly: true)
            publishing.isStaged = checked?.isStaged ?? false
        }
        try await publishing.run { () async throws(CommandFailure) in
            try await api.put(request, ifMatch: before.etag, validateOnly: false)
        }
    }
}
