import ArgumentParser
import StalecastTemplate
import StalecastWire

struct Evaluate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "evaluate",
        abstract: "Show which conditions of a template match an app instance, why, and what it gets.",
        discussion: """
            Works offline, from files. The context is what the body of a fetch says, as JSON in a file, on standard \
            input (-) or on the command line; names in camelCase or snake_case, all optional. What is missing makes \
            the conditions that ask for it false. now is the time of the fetch (default: this moment).

            A context:
              {"appId": "1:123456789012:ios:0a1b2c",
               "appInstanceId": "cAbCdEfGhIjKlMnOpQrStU", "countryCode": "FR",
               "languageCode": "fr-FR", "timeZone": "Europe/Paris",
               "platformVersion": "18.1", "appVersion": "2.1.0", "appBuild": "210",
               "packageName": "com.example.app", "sdkVersion": "12.2.0",
               "firstOpenTime": "2026-01-05T10:00:00Z",
               "analyticsUserProperties": {"plan": "pro"},
               "customSignals": {"city": "york"}, "audiences": ["Buyers"],
               "now": "2026-03-01T09:00:00Z"}

            Examples:
              stalecast evaluate --template samples/templates/demo.json \\
                --context context.json
              stalecast evaluate --template t.json --json \\
                --context '{"countryCode": "FR"}' | jq .entries
              stalecast evaluate --template t.json \\
                --contexts contexts.jsonl > results.jsonl
            """)

    @Option(help: .value("file", "The template's file, or - for standard input."), completion: .file())
    var template: String

    @Option(help: .value("file|json", "One context: a file, - for standard input, or JSON."), completion: .file())
    var context: String?

    @Option(
        help: .value("file", "A file with one context per line; prints one JSON result per line."), completion: .file())
    var contexts: String?

    @Option(
        help: .value("name", "firebase-server for a server template, else a client template."), completion: .namespaces)
    var namespace = "firebase"

    @OptionGroup var outputOptions: OutputOptions

    func validate() throws {
        guard (context == nil) == (contexts == nil) else { return }
        throw ValidationError("give either --context or --contexts")
    }

    func run() async throws {
        let namespace = try checked(try Namespace(self.namespace))
        let template = try TemplateFile(template).template(for: namespace)
        let compiled = CompiledTemplate(template, kind: TemplateKind(namespace: namespace))
        if let contexts { return try writeAll(compiled, contexts) }
        let explanation = compiled.explain(try given(context ?? "-"))
        let output = outputOptions.output
        try output.show(explanation.json, explanation.lines(output.palette))
    }

    /// Context from JSON when the argument begins like an object, else from a file.
    private func given(_ argument: String) throws(CommandFailure) -> EvaluationContext {
        if argument.drop(while: \.isWhitespace).first == "{" {
            return try EvaluationContext(argument, named: "the context")
        }
        return try EvaluationContext(String(decoding: try InputFile.read(argument), as: UTF8.self), named: argument)
    }

    private func writeAll(_ compiled: CompiledTemplate, _ path: String) throws {
        let lines = String(decoding: try InputFile.read(path), as: UTF8.self).split(whereSeparator: \.isNewline)
        for (index, line) in lines.enumerated() {
            let context = try EvaluationContext(String(line), named: "\(path), line \(index + 1)")
            try outputOptions.output.jsonText(compiled.explain(context).json.text())
        }
    }
}

extension EvaluationContext {
    /// - Parameter name: of the text, in error messages.
    fileprivate init(_ text: String, named name: String) throws(CommandFailure) {
        do {
            self = try EvaluationContext(json: try JSONValue.parse(text.utf8))
        } catch let error as JSONError {
            throw CommandFailure(.refused, "\(name) is not JSON: \(error)")
        } catch {
            throw CommandFailure(.refused, "\(name) is not a context: \(error)")
        }
    }
}

extension Explanation {
    fileprivate func lines(_ palette: Palette) -> [String] {
        conditionLines(palette) + [""] + parameterLines(palette) + managedLines
    }

    private func conditionLines(_ palette: Palette) -> [String] {
        guard !conditions.isEmpty else { return ["no conditions"] }
        let cells = conditions.map { [$0.name, $0.isMatched ? "yes" : "no", $0.reason] }
        return TextTable([.left("CONDITION"), .left("MATCHED"), .left("WHY")], cells: cells).lines(palette)
    }

    private func parameterLines(_ palette: Palette) -> [String] {
        guard !parameters.isEmpty else { return ["no parameters"] }
        let cells = parameters.map { parameter in
            [parameter.name, parameter.value ?? "(in-app default)", parameter.condition ?? "default"]
        }
        return TextTable([.left("PARAMETER"), .left("VALUE"), .left("DECIDED BY")], cells: cells).lines(palette)
    }

    private var managedLines: [String] {
        let lines = (values.rolloutMetadata + values.experimentDescriptions).map { item in
            let id = item["rolloutId"]?.string ?? item.word("experimentId", "")
            return "\(id.printable): \(item.word("variantId", "").printable)"
        }
        return lines.isEmpty ? [] : [""] + lines
    }
}
