/// Reads the bodies Firebase's SDKs send: JSON, and what their iOS code prints by hand, which is not JSON:
/// `{app_id:'1:12:ios:ab', country_code:(null), custom_signals:{"city":"york"}}`.
///
/// Names may be bare, values in single quotes are taken as they are (nothing is escaped in them), `(null)` is null, a
/// comma may stand before the end, and the last of two members of one name counts. Whatever the bytes, it ends in a
/// value or in ``JSONError``; nesting and size are bounded.
package enum LenientJSON {
    /// Arrays and objects within each other.
    static let maxDepth = 8
    /// Members of one object, and elements of one array.
    static let maxMembers = 1024

    /// - Throws: ``JSONError`` when the bytes are no object, even with goodwill.
    package static func object(_ bytes: [UInt8]) throws(JSONError) -> JSONObject {
        var parser = JSONParser(bytes: bytes, maxDepth: maxDepth, isLenient: true)
        if case .object(let object) = try parser.document() { return object }
        throw parser.error("an object is expected", at: 0)
    }
}

extension JSONParser {
    /// Reads a value that begins neither with a bracket nor with a double quote.
    mutating func lenientValue(before end: Unicode.Scalar) throws(JSONError) -> JSONValue {
        if bytes[index] == UInt8(ascii: "'") { return .string(try quoted(before: ",", end)) }
        let text = try bare("a value is expected")
        switch text {
        case "true": return .bool(true)
        case "false": return .bool(false)
        case "null", "(null)": return .null
        default: return Double(text) == nil ? .string(text) : .number(text)
        }
    }

    mutating func lenientName() throws(JSONError) -> String {
        guard index < bytes.count, bytes[index] == UInt8(ascii: "'") else {
            return try bare("a member's name is expected")
        }
        return try quoted(before: ":", ":")
    }

    /// Reads a text in single quotes, as it is. An apostrophe may be part of the text, so the text ends at one that is
    /// followed, blanks aside, by what must follow the text.
    private mutating func quoted(before one: Unicode.Scalar, _ other: Unicode.Scalar) throws(JSONError) -> String {
        let start = index + 1
        index = start
        while index < bytes.count {
            index += 1
            guard bytes[index - 1] == UInt8(ascii: "'") else { continue }
            let next = bytes[index...].first { !Self.isBlank($0) }
            if next == UInt8(ascii: one) || next == UInt8(ascii: other) {
                return try text(bytes[start..<index - 1], at: start)
            }
        }
        throw error("a string is not ended", at: start - 1)
    }

    private mutating func bare(_ expectation: String) throws(JSONError) -> String {
        let start = index
        while index < bytes.count, Self.isBare(bytes[index]) { index += 1 }
        if index == start { throw error(expectation) }
        return try text(bytes[start..<index], at: start)
    }

    private static func isBare(_ byte: UInt8) -> Bool {
        byte.isASCIIAlphanumeric || "_-+.$()".utf8.contains(byte) || byte >= 0x80
    }
}
