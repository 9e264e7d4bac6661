package import StalecastWire
import Yams

/// Reads YAML from outside as JSON. Scalars that are not quoted become booleans (`true`, `false` and nothing else: `no`
/// is Norway), null, or numbers when they are spelled as JSON spells them; everything else is text.
package enum YAMLContent {
    /// Deeper documents could exhaust the stack of the parser.
    static let maxDepth = 64
    /// Before anything is parsed: open brackets at one time, and columns before a line's first word.
    private static let maxIndentation = 512

    /// - Throws: ``InvalidYAML`` for a text that is not YAML, is nested too deeply, or has anchors with aliases, which
    ///   grow a short text into one of any size.
    package static func parse(_ bytes: [UInt8]) throws(InvalidYAML) -> JSONValue {
        guard let text = String(validating: bytes, as: UTF8.self) else { throw InvalidYAML("it is not UTF-8 text") }
        try checkDepth(bytes)
        try checkAliases(text)
        return try json(try node(text), depth: 0)
    }

    private static func node(_ text: String) throws(InvalidYAML) -> Node {
        do {
            guard let node = try compose(yaml: text) else { throw InvalidYAML("it is empty") }
            return node
        } catch let error as InvalidYAML {
            throw error
        } catch {
            throw InvalidYAML(sentence(error))
        }
    }

    private static func sentence(_ error: any Error) -> String {
        switch error {
        case YamlError.scanner(_, let problem, let mark, _), YamlError.parser(_, let problem, let mark, _),
            YamlError.composer(_, let problem, let mark, _):
            "\(problem) in line \(mark.line), column \(mark.column)"
        case YamlError.duplicatedKeysInMapping(let names, let context):
            "member \"\(names.first?.prefix(80) ?? "")\" is there twice, line \(context.mark.line)"
        default: "it cannot be parsed"
        }
    }

    // MARK: Before parsing

    private static func checkDepth(_ bytes: [UInt8]) throws(InvalidYAML) {
        var open = 0
        var indentation = 0
        var isBeforeWord = true
        for byte in bytes {
            switch byte {
            case UInt8(ascii: "["), UInt8(ascii: "{"): open += 1
            case UInt8(ascii: "]"), UInt8(ascii: "}"): open = max(0, open - 1)
            case 0x0A, 0x0D:
                isBeforeWord = true
                indentation = -1
            default: break
            }
            isBeforeWord = isBeforeWord && (byte <= 0x20 || "-?:".utf8.contains(byte))
            if isBeforeWord { indentation += 1 }
            if open > maxIndentation || indentation > maxIndentation {
                throw InvalidYAML("it is nested deeper than \(maxDepth) levels")
            }
        }
    }

    /// A superset of true aliases: `&name` anywhere together with `*name` anywhere.
    private static func checkAliases(_ text: String) throws(InvalidYAML) {
        let anchors = names(after: UInt8(ascii: "&"), in: text)
        guard !anchors.isEmpty else { return }
        if let alias = names(after: UInt8(ascii: "*"), in: text).intersection(anchors).sorted().first {
            throw InvalidYAML("aliases are not supported (*\(alias.prefix(40))); write the value out")
        }
    }

    private static func names(after mark: UInt8, in text: String) -> Set<String> {
        var names: Set<String> = []
        for part in text.utf8.split(separator: mark, omittingEmptySubsequences: false).dropFirst() {
            let name = part.prefix { $0.isASCIIAlphanumeric || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-") }
            if !name.isEmpty { names.insert(String(decoding: name, as: UTF8.self)) }
        }
        return names
    }

    // MARK: Values

    private static func json(_ node: Node, depth: Int) throws(InvalidYAML) -> JSONValue {
        guard depth <= maxDepth else { throw InvalidYAML("it is nested deeper than \(maxDepth) levels") }
        switch node {
        case .scalar(let scalar): return value(scalar)
        case .sequence(let sequence):
            var elements: [JSONValue] = []
            for element in sequence { elements.append(try json(element, depth: depth + 1)) }
            return .array(elements)
        case .mapping(let mapping): return .object(try object(mapping, depth))
        case .alias: throw InvalidYAML("aliases are not supported; write the value out")
        }
    }

    private static func object(_ mapping: Node.Mapping, _ depth: Int) throws(InvalidYAML) -> JSONObject {
        var object = JSONObject()
        for (key, value) in mapping {
            guard case .scalar(let name) = key else { throw InvalidYAML("a member's name must be a plain word") }
            object[name.string] = try json(value, depth: depth + 1)
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
            let value = try? JSONValue.parse(text.utf8), case .number = value  // what is no number is text
        else { return nil }
        return value
    }
}

/// Why a text is not the YAML we read; the end of a sentence about it.
package struct InvalidYAML: Error, Hashable, CustomStringConvertible {
    package let description: String

    init(_ description: String) { self.description = description }
}
