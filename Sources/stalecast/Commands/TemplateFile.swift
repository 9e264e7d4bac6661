import StalecastTemplate
import StalecastWire

/// A template in a file, as people write it or `get` saved it.
struct TemplateFile {
    let path: String
    private let text: [UInt8]
    private let document: JSONValue

    /// Reads JSON from `path`, or from standard input when it is `-`.
    /// - Throws: ``CommandFailure`` with line and column when it is no JSON.
    init(_ path: String) throws(CommandFailure) {
        self.path = path
        text = Array(try InputFile.read(path))
        do {
            document = try JSONValue.parse(text)
        } catch {
            let first = text.first { $0 > UInt8(ascii: " ") }
            throw CommandFailure(
                .refused, "\(path) is not JSON: \(error)",
                advice: first == UInt8(ascii: "{") ? nil : "A template is one JSON object; YAML is for sources only.")
        }
    }

    /// A document that was made here: no user has seen its lines.
    init(_ document: JSONValue, named name: String) {
        path = name
        text = []
        self.document = document
    }

    /// The template, checked by the same rules the server applies.
    /// - Throws: ``CommandFailure`` with every problem found.
    func template(for namespace: Namespace) throws(CommandFailure) -> Template {
        do {
            return try Template(validating: document, from: text, kind: TemplateKind(namespace: namespace))
        } catch {
            let problems = error.problems.map { problem in
                problem.message.contains(problem.path) ? problem.message : "\(problem.path): \(problem.message)"
            }
            let more = error.omitted > 0 ? ["… and \(error.omitted) more"] : []
            throw CommandFailure(.refused, "\(path) is not a valid template", problems: problems + more)
        }
    }

    /// Body of the request.
    ///
    /// - Parameter description: of the new version. Without it the file's `version.description` counts, unless the
    ///   file was saved from a server (it has a `versionNumber`): then that text describes an older version.
    func request(description: String?) -> JSONValue {
        guard var object = document.object else { return document }
        let written = object["version"]?["versionNumber"] == nil ? object["version"]?["description"] : nil
        object["etag"] = nil
        object["version"] = (description.map(JSONValue.string) ?? written).map { ["description": $0] }
        return .object(object)
    }
}
