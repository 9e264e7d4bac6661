import ArgumentParser
import Foundation
import StalecastTemplate
import StalecastWire

struct Evaluate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
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
        let explanation = compiled.explain(try Evaluate.ContextText(context ?? "-").context())
        let output = outputOptions.output
        try output.show(explanation.json, Evaluate.Report(explanation).lines(output.palette))
    }

    private func writeAll(_ compiled: CompiledTemplate, _ path: String) throws {
        for (index, line) in try Evaluate.ContextText.lines(of: path).enumerated() {
            let context = try Evaluate.ContextText(text: line, name: "\(path), line \(index + 1)").context()
            try outputOptions.output.jsonText(compiled.explain(context).json.text())
        }
    }
}

extension Evaluate {
    /// A context as JSON text.
    fileprivate struct ContextText {
        let text: String
        /// Name in error messages.
        let name: String

        init(text: String, name: String) {
            self.text = text
            self.name = name
        }

        /// JSON when it begins like an object, else a file's name or `-`.
        init(_ argument: String) throws(CommandFailure) {
            if argument.drop(while: \.isWhitespace).first == "{" {
                self.init(text: argument, name: "the context")
            } else {
                self.init(text: try Self.read(argument), name: argument)
            }
        }

        /// The lines of a file that are not blank.
        static func lines(of path: String) throws(CommandFailure) -> [String] {
            try read(path).split(whereSeparator: \.isNewline).map(String.init)
        }

        func context() throws(CommandFailure) -> EvaluationContext {
            do {
                return try EvaluationContext(json: try JSONValue.parse(text.utf8))
            } catch let error as JSONError {
                throw CommandFailure(.refused, "\(name) is not JSON: \(error)")
            } catch {
                throw CommandFailure(.refused, "\(name) is not a context: \(error)")
            }
        }

        private static func read(_ path: String) throws(CommandFailure) -> String {
            String(decoding: try InputFile.read(path), as: UTF8.self)
        }
    }

    fileprivate struct Report {
        private let explanation: Explanation

        init(_ explanation: Explanation) { self.explanation = explanation }

        func lines(_ palette: Palette) -> [String] {
            conditions(palette) + [""] + entries(palette) + managed
        }

        private func conditions(_ palette: Palette) -> [String] {
            guard !explanation.conditions.isEmpty else { return ["no conditions"] }
            let cells = explanation.conditions.map { [$0.name, $0.isMatched ? "yes" : "no", $0.reason] }
            return TextTable([.left("CONDITION"), .left("MATCHED"), .left("WHY")], cells: cells).lines(palette)
        }

        private func entries(_ palette: Palette) -> [String] {
            guard !explanation.parameters.isEmpty else { return ["no parameters"] }
            let cells = explanation.parameters.map { parameter in
                [parameter.name, parameter.value ?? "(in-app default)", parameter.condition ?? "default"]
            }
            return TextTable([.left("PARAMETER"), .left("VALUE"), .left("DECIDED BY")], cells: cells).lines(palette)
        }

        private var managed: [String] {
            let values = explanation.values
            let lines = (values.rolloutMetadata + values.experimentDescriptions).map { item in
                let id = item["rolloutId"]?.string ?? item.word("experimentId", "")
                return "\(id.printable): \(item.word("variantId", "").printable)"
            }
            return lines.isEmpty ? [] : [""] + lines
        }
    }
}
