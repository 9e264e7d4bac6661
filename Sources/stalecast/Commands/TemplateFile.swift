import StalecastSources
import StalecastTemplate
import StalecastWire

/// A template in a file, as people write it or `get` saved it.
struct TemplateFile {
    let path: String
    private let text: [UInt8]
    private let document: JSONValue

    /// Reads JSON or YAML from `path`, from standard input when it is `-`, or from all files of a directory.
    /// - Throws: ``CommandFailure`` with line and column of what is neither.
    init(_ path: String) throws(CommandFailure) {
        if TemplateFolder.isFolder(path) {
            do throws(TemplateFolder.Unreadable) { document = try TemplateFolder.document(path) } catch {
                throw CommandFailure(.refused, "\(path): \(error.description)")
            }
            (self.path, text) = (path, [])
            return
        }
        self.path = path
        let bytes = Array(try InputFile.read(path))
        let isYAML = path.hasSuffix(".yaml") || path.hasSuffix(".yml")
        do {
            document = isYAML ? try YAMLContent.parse(bytes) : try JSONValue.parse(bytes)
            text = isYAML ? [] : bytes
        } catch {
            // On standard input a text that is neither is reported as invalid JSON.
            guard path == "-", bytes.first(where: { $0 > UInt8(ascii: " ") }) != UInt8(ascii: "{"),
                let read = try? YAMLContent.parse(bytes), read.object != nil
            else {
                throw CommandFailure(
                    .refused, "\(path) is not \(isYAML ? "YAML" : "JSON"): \(error)",
                    advice: isYAML ? nil : "A template is one JSON object, or YAML in a file that ends with .yaml.")
            }
            (document, text) = (read, [])
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
            throw CommandFailure(
                .refused, "\(path) is not a valid template", problems: problems + more,
                advice: advice(on: error.problems))
        }
    }

    /// Advice where the problems do not say how it is written.
    private func advice(on problems: [TemplateProblem]) -> String? {
        let members = document.object?.keys ?? []
        func has(_ words: String) -> Bool { problems.contains { $0.message.contains(words) } }
        if has("are not valid condition names") {
            let names = (document["conditions"]?.array ?? []).compactMap { $0["name"]?.string?.printable }
            return
                "Each needs an entry in conditions, such as {\"name\":\"ios\",\"expression\":\"device.os == 'ios'\"}; "
                + (names.isEmpty ? "there is none." : "there are: \(names.prefix(20).joined(separator: ", ")).")
        }
        let parts = ["parameters", "parameterGroups", "conditions", "version"]
        guard !members.contains(where: parts.contains) || has("an object is expected, not") else { return nil }
        return
            "One value is written {\"parameters\":{\"x\":{\"defaultValue\":{\"value\":\"3\"}}}}. `stalecast get` prints the "
            + "current template, `stalecast set x=3` changes one value."
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
