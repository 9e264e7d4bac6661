import ArgumentParser
import Foundation
import StalecastSources
import StalecastTemplate
import StalecastWire

struct Get: AsyncParsableCommand, ScopedControlOptions {
    static let configuration = CommandConfiguration(
        commandName: "get",
        abstract: "Print one value, or print or save a template.",
        discussion: """
            With a key its default value is printed as it is, or its value for a condition. The document is what Control \
            serves, with its `version` member; `publish` takes it back as it is.

            Examples:
              stalecast get max_items
              stalecast get max_items --condition ios_france
              stalecast get --keys
              stalecast get
              stalecast get -o yaml
              stalecast get -o current.json
              stalecast get --version-number 3 | jq .parameters
            """)

    @Argument(help: "A parameter (default: the whole template).", completion: .parameters)
    var key: String?

    @Flag(help: "Print the names of the parameters, one on each line.")
    var keys = false

    @Option(help: .value("name", "Print the value for this condition."), completion: .conditions)
    var condition: String?

    @Flag(help: "Print the JSON Schema of a parameter, not its value.")
    var schema = false

    @Option(help: .value("number", "An older version (default: the active one)."), completion: .versionNumbers)
    var versionNumber: Int64?

    @Option(
        name: [.customShort("o"), .long],
        help: .value("file", "Write to this file; json or yaml alone prints that format."), completion: .file())
    var output: String?

    @Flag(help: "Print or save YAML instead of JSON; a file that ends with .yaml is YAML without it.")
    var yaml = false

    @OptionGroup var scoped: ScopedOptions

    func validate() throws {
        if let versionNumber, versionNumber < 1 { throw ValidationError("a version number is 1 or more") }
        if key == nil, condition != nil { throw ValidationError("--condition is about a KEY") }
        if schema, key == nil || condition != nil { throw ValidationError("--schema is about a KEY and no condition") }
        if key != nil, keys { throw ValidationError("--keys is about all of them") }
        if key != nil || keys, yaml { throw ValidationError("--yaml is for a whole template") }
        if yaml, output == "json" { throw ValidationError("-o json and --yaml are two formats") }
        if key != nil || keys, output != nil { throw ValidationError("--output saves a whole template") }
    }

    func run() async throws {
        let api = try api()
        let served = try await api.get(versionNumber)
        if let key { return try show(key, TemplateEdit(served.json)) }
        if keys { return try list(TemplateEdit(served.json).names.sorted()) }
        guard let output, !["json", "yaml", "yml"].contains(output) else {
            if yaml || output?.hasPrefix("y") == true {
                return try connection.output.write(try written(served.json, asYAML: true))
            }
            return try connection.output.json(served.json)
        }
        let isYAML = yaml || output.hasSuffix(".yaml") || output.hasSuffix(".yml")
        try OutputFile.write(try written(served.json, asYAML: isYAML), to: output)
        connection.output.remark("version \(served.version) of \(api.scope), \(served.etag), written to \(output)")
    }

    private func written(_ template: JSONValue, asYAML isYAML: Bool) throws(CommandFailure) -> [UInt8] {
        guard isYAML else { return template.encoded(.pretty) + [0x0A] }
        do { return Array(try YAMLContent.text(template).utf8) } catch {
            throw CommandFailure(.refused, "the template cannot be written as YAML: \(error)")
        }
    }

    private func list(_ names: [String]) throws(CommandFailure) {
        try connection.output.show(.array(names.map(JSONValue.string)), names.map(\.printable))
    }

    /// The bare value to standard output; what there is besides as a remark.
    private func show(_ key: String, _ template: TemplateEdit) throws(CommandFailure) {
        let output = connection.output
        let condition = schema ? SchemaCondition.name : condition
        let value = try template.value(key, if: condition)
        if output.isJSON {
            return try output.json(condition == nil ? .object(template.parameter(key)) : value)
        }
        if let text = value["value"]?.string {
            try output.line(isatty(STDOUT_FILENO) == 1 ? text.printable : text)
        } else if value["useInAppDefault"]?.bool == true || value == .null {
            output.remark("\(key) uses what apps were built with")
        } else {
            try output.jsonText(value.text())
        }
        guard condition == nil, let others = try template.parameter(key)["conditionalValues"]?.object else { return }
        for (name, other) in others.members {
            let text = other["value"]?.string ?? other.text()
            let when = name == SchemaCondition.name ? name : "if \(name.printable)"
            output.remark(output.palette.dim("\(when): \(text.printable)"))
        }
    }
}
