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
        var writer = JSONWriter(style: style)
        writer.bytes.reserveCapacity(512)
        writer.write(self, level: 0)
        return writer.bytes
    }

    /// The document as text, without a final line end.
    package func text(_ style: JSONStyle = .wire) -> String { String(decoding: encoded(style), as: UTF8.self) }
}

/// A document that is being written.
private struct JSONWriter {
    let style: JSONStyle
    var bytes: [UInt8] = []

    mutating func write(_ value: JSONValue, level: Int) {
        switch value {
        case .null: bytes.append(contentsOf: "null".utf8)
        case .bool(let flag): bytes.append(contentsOf: (flag ? "true" : "false").utf8)
        case .number(let text): bytes.append(contentsOf: text.utf8)
        case .string(let text): write(text)
        case .array(let elements):
            writeList(elements, "[", "]", level) { $0.write($1, level: level + 1) }
        case .object(let object):
            let members = style.sortedKeys ? object.members.sorted { $0.key < $1.key } : object.members
            writeList(members, "{", "}", level) {
                $0.write($1.key)
                $0.bytes.append(UInt8(ascii: ":"))
                if $0.style.indent != nil { $0.bytes.append(0x20) }
                $0.write($1.value, level: level + 1)
            }
        }
    }

    private mutating func writeList<Element>(
        _ elements: [Element], _ open: Unicode.Scalar, _ close: Unicode.Scalar, _ level: Int,
        _ writeElement: (inout JSONWriter, Element) -> Void
    ) {
        bytes.append(UInt8(ascii: open))
        for (position, element) in elements.enumerated() {
            if position > 0 { bytes.append(UInt8(ascii: ",")) }
            newLine(level + 1)
            writeElement(&self, element)
        }
        if !elements.isEmpty { newLine(level) }
        bytes.append(UInt8(ascii: close))
    }

    private mutating func newLine(_ level: Int) {
        guard let indent = style.indent else { return }
        bytes.append(0x0A)
        bytes.append(contentsOf: repeatElement(0x20, count: indent * level))
    }

    private mutating func write(_ text: String) {
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
            case let value where value < 0x20 || value == 0x7F || style.asciiOnly:
                for unit in String(scalar).utf16 { appendEscape(unit) }
            default: bytes.append(contentsOf: Array(String(scalar).utf8))
            }
        }
    }

    private static let hexDigits = Array("0123456789abcdef".utf8)

    private mutating func appendEscape(_ unit: UInt16) {
        bytes.append(contentsOf: "\\u".utf8)
        for shift in [12, 8, 4, 0] { bytes.append(Self.hexDigits[Int(unit >> UInt16(shift)) & 15]) }
    }
}
