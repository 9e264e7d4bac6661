/// Style in which a ``JSONValue`` is written.
package struct JSONStyle: Sendable {
    /// Escape everything beyond ASCII, so that no client can take a character for a line end. Default true.
    package var asciiOnly = true
    /// Members sorted by name instead of document order. Default false.
    package var sortedKeys = false
    /// Spaces per level; nil writes one line. Default nil.
    package var indent: Int?

    package init(asciiOnly: Bool = true, sortedKeys: Bool = false, indent: Int? = nil) {
        (self.asciiOnly, self.sortedKeys, self.indent) = (asciiOnly, sortedKeys, indent)
    }

    /// One line of ASCII in document order: what goes on an SSE `data:` line.
    package static let wire = JSONStyle()
    /// Style for people: two spaces, UTF-8 as is.
    package static let pretty = JSONStyle(asciiOnly: false, indent: 2)
}

extension JSONValue {
    /// The document as UTF-8 bytes, without a final line end.
    package func encoded(_ style: JSONStyle = .wire) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(512)
        write(to: &bytes, style: style, level: 0)
        return bytes
    }

    /// The document as text, without a final line end.
    package func text(_ style: JSONStyle = .wire) -> String { String(decoding: encoded(style), as: UTF8.self) }

    private func write(to bytes: inout [UInt8], style: JSONStyle, level: Int) {
        switch self {
        case .null: bytes.append(contentsOf: "null".utf8)
        case .bool(let flag): bytes.append(contentsOf: (flag ? "true" : "false").utf8)
        case .number(let text): bytes.append(contentsOf: text.utf8)
        case .string(let text): Self.write(text, to: &bytes, asciiOnly: style.asciiOnly)
        case .array(let elements):
            Self.writeList(elements, "[", "]", to: &bytes, style, level) {
                $0.write(to: &$1, style: style, level: level + 1)
            }
        case .object(let object):
            let members = style.sortedKeys ? object.members.sorted { $0.key < $1.key } : object.members
            Self.writeList(members, "{", "}", to: &bytes, style, level) {
                Self.write($0.key, to: &$1, asciiOnly: style.asciiOnly)
                $1.append(UInt8(ascii: ":"))
                if style.indent != nil { $1.append(0x20) }
                $0.value.write(to: &$1, style: style, level: level + 1)
            }
        }
    }

    private static func writeList<Element>(
        _ elements: [Element], _ open: Unicode.Scalar, _ close: Unicode.Scalar, to bytes: inout [UInt8],
        _ style: JSONStyle, _ level: Int, _ writeElement: (Element, inout [UInt8]) -> Void
    ) {
        bytes.append(UInt8(ascii: open))
        for (position, element) in elements.enumerated() {
            if position > 0 { bytes.append(UInt8(ascii: ",")) }
            newLine(to: &bytes, style, level + 1)
            writeElement(element, &bytes)
        }
        if !elements.isEmpty { newLine(to: &bytes, style, level) }
        bytes.append(UInt8(ascii: close))
    }

    private static func newLine(to bytes: inout [UInt8], _ style: JSONStyle, _ level: Int) {
        guard let indent = style.indent else { return }
        bytes.append(0x0A)
        bytes.append(contentsOf: repeatElement(0x20, count: indent * level))
    }

    private static func write(_ text: String, to bytes: inout [UInt8], asciiOnly: Bool) {
        bytes.append(0x22)
        defer { bytes.append(0x22) }
        // Nearly all text is plain, and then goes in one piece.
        let isPlain = text.utf8.withContiguousStorageIfAvailable { units in
            guard units.allSatisfy({ (0x20..<0x7F).contains($0) && $0 != 0x22 && $0 != 0x5C }) else { return false }
            bytes.append(contentsOf: units)
            return true
        }
        if isPlain == true { return }
        for scalar in text.unicodeScalars {
            switch scalar.value {
            case 0x22, 0x5C:
                bytes.append(0x5C)
                bytes.append(UInt8(scalar.value))
            case 0x0A: bytes.append(contentsOf: "\\n".utf8)
            case 0x0D: bytes.append(contentsOf: "\\r".utf8)
            case 0x09: bytes.append(contentsOf: "\\t".utf8)
            case 0x20..<0x7F: bytes.append(UInt8(scalar.value))
            case let value where value < 0x20 || value == 0x7F || asciiOnly:
                for unit in String(scalar).utf16 { appendEscape(unit, to: &bytes) }
            default: bytes.append(contentsOf: Array(String(scalar).utf8))
            }
        }
    }

    private static let hexDigits = Array("0123456789abcdef".utf8)

    private static func appendEscape(_ unit: UInt16, to bytes: inout [UInt8]) {
        bytes.append(contentsOf: "\\u".utf8)
        for shift in [12, 8, 4, 0] { bytes.append(hexDigits[Int(unit >> UInt16(shift)) & 15]) }
    }
}
