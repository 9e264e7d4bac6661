package import StalecastWire

/// Reads the bodies Firebase's SDKs send: JSON, and what their iOS code prints by hand, which is not JSON:
/// `{app_id:'1:12:ios:ab', country_code:(null), custom_signals:{"city":"york"}}`.
///
/// Names may be bare, values in single quotes are taken as they are (nothing is escaped in them), `(null)` is null.
/// Whatever the bytes, it ends in a value or in ``JSONError``; nesting and size are bounded.
package struct LenientJSON {
    /// Arrays and objects within each other.
    static let maxDepth = 8
    /// Members of one object, and elements of one array.
    static let maxMembers = 1024

    private let bytes: [UInt8]
    private var index = 0
    private var depth = 0

    /// - Throws: ``JSONError`` when the bytes are no object, even with goodwill.
    package static func object(_ bytes: [UInt8]) throws(JSONError) -> JSONObject {
        var parser = LenientJSON(bytes: bytes)
        parser.skipBlanks()
        guard parser.peek() == UInt8(ascii: "{") else { throw parser.error("an object is expected") }
        let object = try parser.object()
        parser.skipBlanks()
        if parser.index < bytes.count { throw parser.error("nothing may follow the object") }
        return object
    }

    private init(bytes: [UInt8]) {
        self.bytes = bytes
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { index = 3 }
    }

    // MARK: Structure

    /// - Parameter end: the bracket that closes what the value is in.
    private mutating func value(before end: Unicode.Scalar) throws(JSONError) -> JSONValue {
        switch peek() {
        case nil: throw error("the text ends where a value is expected")
        case UInt8(ascii: "{"): return .object(try object())
        case UInt8(ascii: "["): return .array(try array())
        case UInt8(ascii: "\""): return .string(try escaped())
        case UInt8(ascii: "'"): return .string(try quoted(before: ",", end))
        default: return try word()
        }
    }

    private mutating func object() throws(JSONError) -> JSONObject {
        try enter()
        defer { depth -= 1 }
        var object = JSONObject()
        while true {
            skipBlanks()
            if skip("}") { return object }
            let name = try name()
            skipBlanks()
            guard skip(":") else { throw error("':' is expected") }
            skipBlanks()
            object[name] = try value(before: "}")
            if object.count > Self.maxMembers { throw error("an object has too many members") }
            try separator(before: "}")
        }
    }

    private mutating func array() throws(JSONError) -> [JSONValue] {
        try enter()
        defer { depth -= 1 }
        var elements: [JSONValue] = []
        while true {
            skipBlanks()
            if skip("]") { return elements }
            elements.append(try value(before: "]"))
            if elements.count > Self.maxMembers { throw error("an array has too many elements") }
            try separator(before: "]")
        }
    }

    private mutating func enter() throws(JSONError) {
        depth += 1
        if depth > Self.maxDepth { throw error("nested deeper than \(Self.maxDepth) levels") }
        index += 1
    }

    /// A comma, or nothing where the end follows; a comma too many before the end is forgiven.
    private mutating func separator(before end: Unicode.Scalar) throws(JSONError) {
        skipBlanks()
        guard skip(",") || peek() == UInt8(ascii: end) else { throw error("',' or '\(end)' is expected") }
    }

    // MARK: Texts

    private mutating func name() throws(JSONError) -> String {
        switch peek() {
        case UInt8(ascii: "\""): return try escaped()
        case UInt8(ascii: "'"): return try quoted(before: ":", ":")
        default: return try bare("a member's name is expected")
        }
    }

    /// Reads a text in double quotes, with JSON's escapes.
    private mutating func escaped() throws(JSONError) -> String {
        let start = index + 1
        index = start
        var hasEscapes = false
        while let byte = peek(), byte != 0x22 {
            if byte == 0x5C {
                hasEscapes = true
                index += 1
            }
            index += 1
        }
        guard peek() == 0x22 else { throw error("a string is not ended", at: start - 1) }
        index += 1
        guard hasEscapes else { return try text(bytes[start..<index - 1]) }
        do {
            return try JSONValue.parse(bytes[start - 1..<index]).string ?? ""
        } catch {
            throw self.error(error.reason, at: start - 1 + error.offset)
        }
    }

    /// Reads a text in single quotes, as it is. An apostrophe may be part of the text, so the text ends at one that is
    /// followed, blanks aside, by what must follow the text.
    private mutating func quoted(before one: Unicode.Scalar, _ other: Unicode.Scalar) throws(JSONError) -> String {
        let start = index + 1
        index = start
        while let byte = peek() {
            index += 1
            if byte == UInt8(ascii: "'"), isFollowed(by: one, other) { return try text(bytes[start..<index - 1]) }
        }
        throw error("a string is not ended", at: start - 1)
    }

    private func isFollowed(by one: Unicode.Scalar, _ other: Unicode.Scalar) -> Bool {
        var next = index
        while next < bytes.count, Self.isBlank(bytes[next]) { next += 1 }
        return next < bytes.count && (bytes[next] == UInt8(ascii: one) || bytes[next] == UInt8(ascii: other))
    }

    /// Reads a word without quotes: `true`, `false`, `null`, `(null)`, a number; anything else counts as text.
    private mutating func word() throws(JSONError) -> JSONValue {
        let text = try bare("a value is expected")
        switch text {
        case "true": return .bool(true)
        case "false": return .bool(false)
        case "null", "(null)": return .null
        default: return Double(text) == nil ? .string(text) : .number(text)
        }
    }

    private mutating func bare(_ expectation: String) throws(JSONError) -> String {
        let start = index
        while let byte = peek(), Self.isBare(byte) { index += 1 }
        if index == start { throw error(expectation) }
        return try text(bytes[start..<index])
    }

    private func text(_ slice: ArraySlice<UInt8>) throws(JSONError) -> String {
        if slice.allSatisfy({ $0 < 0x80 }) { return String(decoding: slice, as: UTF8.self) }
        guard let text = String(validating: slice, as: UTF8.self) else {
            throw error("a string is not valid UTF-8", at: slice.startIndex)
        }
        guard CombiningMarks.areFew(in: text) else {
            throw error(
                "a string has more than \(CombiningMarks.maxRun) combining marks in a row", at: slice.startIndex)
        }
        return text
    }

    // MARK: Bytes

    private func peek() -> UInt8? { index < bytes.count ? bytes[index] : nil }

    private mutating func skip(_ symbol: Unicode.Scalar) -> Bool {
        guard peek() == UInt8(ascii: symbol) else { return false }
        index += 1
        return true
    }

    private mutating func skipBlanks() {
        while let byte = peek(), Self.isBlank(byte) { index += 1 }
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 }

    private static func isBare(_ byte: UInt8) -> Bool {
        byte.isASCIIAlphanumeric || "_-+.$()".utf8.contains(byte) || byte >= 0x80
    }

    private func error(_ reason: String, at offset: Int? = nil) -> JSONError {
        JSONError(reason, at: offset ?? index, in: bytes)
    }
}
