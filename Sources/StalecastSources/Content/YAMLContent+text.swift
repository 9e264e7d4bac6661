package import StalecastWire
import Yams

extension YAMLContent {
    /// YAML that ``parse(_:)`` reads as the same value: texts over several lines as blocks, members in their order.
    package static func text(_ value: JSONValue) throws(InvalidValue) -> String {
        do { return try serialize(node: node(value), width: -1, allowUnicode: true) } catch {
            throw InvalidValue("it cannot be written as YAML: \(error)")
        }
    }

    private static func node(_ value: JSONValue) -> Node {
        switch value {
        case .null: scalar("null", .plain)
        case .bool(let flag): scalar(flag ? "true" : "false", .plain)
        case .number(let text): scalar(text, .plain)
        case .string(let text): scalar(text, style(of: text))
        case .array(let elements):
            // Block style has no spelling for an empty list or mapping (YAML 1.2, section 8.2).
            .sequence(Node.Sequence(elements.map(node), .implicit, elements.isEmpty ? .flow : .block))
        case .object(let object):
            .mapping(
                Node.Mapping(
                    object.members.map { (scalar($0.key, style(of: $0.key)), node($0.value)) }, .implicit,
                    object.members.isEmpty ? .flow : .block))
        }
    }

    private static func scalar(_ text: String, _ style: Node.Scalar.Style) -> Node {
        .scalar(Node.Scalar(text, .implicit, style))
    }

    /// Plain where no reader takes the text for anything else.
    private static func style(of text: String) -> Node.Scalar.Style {
        if isBlock(text) { return .literal }
        let isWord = text.utf8.allSatisfy { byte in
            (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte & 0xDF)
                || [0x20, 0x2D, 0x2E, 0x5F].contains(byte)
        }
        let first = text.utf8.first.map { $0 & 0xDF } ?? 0
        let isOther = others.contains(text.lowercased())
        return isWord && (0x41...0x5A).contains(first) && text.utf8.last != 0x20 && !isOther ? .plain : .doubleQuoted
    }

    /// Words that YAML 1.1 or 1.2 take for a truth value or nothing.
    private static let others: Set<String> = ["true", "false", "yes", "no", "on", "off", "y", "n", "null"]

    /// Several lines of printable text, none of which begins or ends with a blank.
    private static func isBlock(_ text: String) -> Bool {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        return lines.count > 1 && text.utf8.allSatisfy { $0 == 0x0A || (0x20...0x7E).contains($0) }
            && lines.first?.isEmpty == false && lines.allSatisfy { !$0.hasPrefix(" ") && !$0.hasSuffix(" ") }
    }
}
