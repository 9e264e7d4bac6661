package import StalecastWire
import Yams

/// Reads YAML from outside as JSON. Scalars that are not quoted become booleans (`true`, `false` and nothing else: `no`
/// is Norway), null, or numbers when they are spelled as JSON spells them; everything else is text.
package enum YAMLContent {
    /// Deeper documents could exhaust the stack of the parser.
    static let maxDepth = 64
    /// Most nodes of a document: names, values, lists and mappings. A template of 2,000 parameters with 30 conditional
    /// values each has fewer.
    static let maxNodes = 250_000
    /// Largest text, whatever the source's `maxBytes` says: a larger document is JSON, which is read ten times as fast.
    static let maxBytes = 8 << 20

    /// - Throws: ``InvalidValue`` for a text that is not YAML, is nested too deeply, has more nodes than any
    ///   template, or has anchors, whose aliases grow a short text into one of any size.
    package static func parse(_ bytes: [UInt8]) throws(InvalidValue) -> JSONValue {
        guard bytes.count <= maxBytes else {
            throw InvalidValue("it has more than \(maxBytes >> 20) MiB; serve documents of that size as JSON")
        }
        guard let text = String(validating: bytes, as: UTF8.self) else { throw InvalidValue("it is not UTF-8 text") }
        // Events are looked at before Yams composes nodes of them, which recurses and cannot be stopped half-way.
        switch YAMLEvents.obstacle(in: bytes, maxDepth: maxDepth, maxNodes: maxNodes) {
        case nil: break
        case .anchor(let line):
            throw InvalidValue("anchors and aliases are not supported, line \(line); write the value out")
        case .depth(let line): throw InvalidValue("it is nested deeper than \(maxDepth) levels, line \(line)")
        case .marks(let line): throw InvalidValue("it has too many combining marks in a row, line \(line)")
        case .count: throw InvalidValue("it has more than \(maxNodes) names and values, more than any template")
        }
        return try json(try node(text))
    }

    private static func node(_ text: String) throws(InvalidValue) -> Node {
        do {
            guard let node = try compose(yaml: text) else { throw InvalidValue("it is empty") }
            return node
        } catch let error as InvalidValue {
            throw error
        } catch {
            throw InvalidValue(sentence(error))
        }
    }

    private static func sentence(_ error: any Error) -> String {
        switch error {
        case YamlError.scanner(_, let problem, let mark, let text),
            YamlError.parser(_, let problem, let mark, let text),
            YamlError.composer(_, let problem, let mark, let text):
            "\(problem) in line \(mark.line), column \(mark.column)" + hint(mark.snippet(from: text))
        case YamlError.duplicatedKeysInMapping(let names, let context):
            "member \"\(names.first?.prefix(80) ?? "")\" is there twice, line \(context.mark.line)"
        default: "it cannot be parsed"
        }
    }

    private static func hint(_ snippet: String) -> String {
        let line = snippet.split(separator: "\n").first ?? ""
        return line.prefix(while: \.isWhitespace).contains("\t") ? " (a tab; YAML indents with blanks only)" : ""
    }

    // MARK: Values

    private static func json(_ node: Node) throws(InvalidValue) -> JSONValue {
        switch node {
        case .scalar(let scalar): return value(scalar)
        case .sequence(let sequence): return .array(try sequence.map(json))
        case .mapping(let mapping): return .object(try object(mapping))
        case .alias: throw InvalidValue("anchors and aliases are not supported; write the value out")
        }
    }

    private static func object(_ mapping: Node.Mapping) throws(InvalidValue) -> JSONObject {
        var object = JSONObject()
        for (key, value) in mapping {
            guard case .scalar(let name) = key else { throw InvalidValue("a member's name must be a plain word") }
            object[name.string] = try json(value)
        }
        return object
    }

    private static func value(_ scalar: Node.Scalar) -> JSONValue {
        guard scalar.style == .plain || scalar.style == .any else { return .string(scalar.string) }
        switch scalar.string {
        case "", "~", "null", "Null", "NULL": return .null
        case "true", "True", "TRUE": return true
        case "false", "False", "FALSE": return false
        default: return number(scalar.string) ?? .string(scalar.string)
        }
    }

    private static func number(_ text: String) -> JSONValue? {
        guard let first = text.utf8.first, first == UInt8(ascii: "-") || (0x30...0x39).contains(first),
            let value = JSONValue.ifValid(text.utf8), case .number = value  // what is no number is text
        else { return nil }
        return value
    }
}
