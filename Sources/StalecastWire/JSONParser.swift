/// Place and reason at which a text is not the JSON we accept.
package struct JSONError: Error, CustomStringConvertible, Equatable {
    /// Bytes before the error, from 0.
    package let offset: Int
    /// Line, from 1.
    package let line: Int
    /// Bytes in the line, from 1.
    package let column: Int
    package let reason: String

    /// The place is that of the byte at `offset` of `bytes`.
    package init(_ reason: String, at offset: Int, in bytes: [UInt8]) {
        let offset = min(offset, bytes.count)
        let before = bytes[..<offset]
        let lineStart = before.lastIndex(of: 0x0A).map { $0 + 1 } ?? 0
        self.offset = offset
        self.reason = reason
        line = before.count { $0 == 0x0A } + 1
        column = offset - lineStart + 1
    }

    package var description: String { "\(reason) at line \(line), column \(column)" }
}

extension JSONValue {
    /// Parses strict RFC 8259 JSON in UTF-8 (a leading byte order mark is skipped).
    ///
    /// - Parameter maxDepth: nesting of arrays and objects accepted; deeper is an error before the stack is at risk.
    /// - Throws: ``JSONError`` for bad syntax, invalid UTF-8, a member named twice, or nesting beyond `maxDepth`.
    package static func parse(_ bytes: some Sequence<UInt8>, maxDepth: Int = 64) throws(JSONError) -> JSONValue {
        var parser = JSONParser(bytes: Array(bytes), maxDepth: maxDepth)
        return try parser.document()
    }

    /// Value of a JSON text; nil for any other text, where the caller needs no reason. See ``parse(_:maxDepth:)``.
    package static func ifValid(_ bytes: some Sequence<UInt8>, maxDepth: Int = 64) -> JSONValue? {
        try? parse(bytes, maxDepth: maxDepth)  // the caller needs no reason
    }
}

/// Recursive descent over bytes; recursion is bounded by `maxDepth`.
struct JSONParser {
    let bytes: [UInt8]
    private let maxDepth: Int
    /// Reads what ``LenientJSON`` describes.
    private let isLenient: Bool
    var index = 0
    private var depth = 0

    init(bytes: [UInt8], maxDepth: Int, isLenient: Bool = false) {
        (self.bytes, self.maxDepth, self.isLenient) = (bytes, maxDepth, isLenient)
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { index = 3 }
    }

    mutating func document() throws(JSONError) -> JSONValue {
        let value = try value(before: "}")
        skipBlanks()
        if index < bytes.count { throw error("nothing may follow the document's value") }
        return value
    }

    /// - Parameter end: bracket that closes what the value is in.
    private mutating func value(before end: Unicode.Scalar) throws(JSONError) -> JSONValue {
        skipBlanks()
        guard index < bytes.count else { throw error("the text ends where a value is expected") }
        switch bytes[index] {
        case UInt8(ascii: "{"): return try object()
        case UInt8(ascii: "["): return try array()
        case UInt8(ascii: "\""): return .string(try string())
        case _ where isLenient: return try lenientValue(before: end)
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        case UInt8(ascii: "-"), 0x30...0x39: return .number(try number())
        default: throw error("a value is expected")
        }
    }

    private mutating func object() throws(JSONError) -> JSONValue {
        try enter()
        var object = JSONObject()
        if skip("}") { return leave(.object(object)) }
        repeat {
            skipBlanks()
            let start = index
            let key = try name()
            // Readers differ in which of two members of one name counts, so neither is taken.
            if object[key] != nil, !isLenient { throw error("member \"\(key.prefix(80))\" is there twice", at: start) }
            guard skip(":") else { throw error("':' is expected") }
            object[key] = try value(before: "}")
        } while try goesOn(before: "}", object.count)
        return leave(.object(object))
    }

    private mutating func array() throws(JSONError) -> JSONValue {
        try enter()
        var elements: [JSONValue] = []
        if skip("]") { return leave(.array(elements)) }
        repeat { elements.append(try value(before: "]")) } while try goesOn(before: "]", elements.count)
        return leave(.array(elements))
    }

    private mutating func name() throws(JSONError) -> String {
        if index < bytes.count, bytes[index] == UInt8(ascii: "\"") { return try string() }
        guard isLenient else { throw error("a member's name in double quotes is expected") }
        return try lenientName()
    }

    /// Takes the comma before another member or element, or the end; the lenient reader forgives a comma before the end.
    private mutating func goesOn(before end: Unicode.Scalar, _ count: Int) throws(JSONError) -> Bool {
        if isLenient, count > LenientJSON.maxMembers {
            throw error(end == "}" ? "an object has too many members" : "an array has too many elements")
        }
        if skip(",") { return !isLenient || !skip(end) }
        guard skip(end) else { throw error("',' or '\(end)' is expected") }
        return false
    }

    private mutating func enter() throws(JSONError) {
        depth += 1
        if depth > maxDepth { throw error("nested deeper than \(maxDepth) levels") }
        index += 1
    }

    private mutating func leave(_ value: JSONValue) -> JSONValue {
        depth -= 1
        return value
    }

    private mutating func word(_ word: StaticString, _ value: JSONValue) throws(JSONError) -> JSONValue {
        for offset in 0..<word.utf8CodeUnitCount {
            guard index + offset < bytes.count, bytes[index + offset] == word.utf8Start[offset] else {
                throw error("a value is expected")
            }
        }
        index += word.utf8CodeUnitCount
        return value
    }

    private mutating func number() throws(JSONError) -> String {
        let start = index
        if bytes[index] == UInt8(ascii: "-") { index += 1 }
        let whole = digits()
        // RFC 8259 §6: `01` is no number.
        let leadingZero = whole > 1 && bytes[index - whole] == UInt8(ascii: "0")
        if whole == 0 || leadingZero { throw error("not a JSON number", at: start) }
        if index < bytes.count, bytes[index] == UInt8(ascii: ".") {
            index += 1
            if digits() == 0 { throw error("not a JSON number", at: start) }
        }
        if index < bytes.count, bytes[index] | 0x20 == UInt8(ascii: "e") {
            index += 1
            if index < bytes.count, bytes[index] == UInt8(ascii: "+") || bytes[index] == UInt8(ascii: "-") {
                index += 1
            }
            if digits() == 0 { throw error("not a JSON number", at: start) }
        }
        return String(decoding: bytes[start..<index], as: UTF8.self)
    }

    private mutating func digits() -> Int {
        let start = index
        while index < bytes.count, (0x30...0x39).contains(bytes[index]) { index += 1 }
        return index - start
    }

    private mutating func string() throws(JSONError) -> String {
        index += 1
        let start = index
        while index < bytes.count, bytes[index] != 0x22, bytes[index] != 0x5C, bytes[index] >= 0x20 || isLenient {
            index += 1
        }
        if index < bytes.count, bytes[index] == 0x22 {
            index += 1
            return try text(bytes[start..<index - 1], at: start)
        }
        return try escapedString(from: start)
    }

    private mutating func escapedString(from start: Int) throws(JSONError) -> String {
        // Nearly all strings have no escape, and do not come here.
        var unescaped = Array(bytes[start..<index])
        while true {
            guard index < bytes.count else { throw error("a string is not ended", at: start - 1) }
            let byte = bytes[index]
            if byte < 0x20, !isLenient { throw error("a control character in a string must be escaped") }
            index += 1
            if byte == 0x22 { return try text(unescaped[...], at: start) }
            if byte == 0x5C { try escape(into: &unescaped) } else { unescaped.append(byte) }
        }
    }

    private mutating func escape(into text: inout [UInt8]) throws(JSONError) {
        guard index < bytes.count else { throw error("a string is not ended") }
        let byte = bytes[index]
        index += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): text.append(byte)
        case UInt8(ascii: "b"): text.append(0x08)
        case UInt8(ascii: "f"): text.append(0x0C)
        case UInt8(ascii: "n"): text.append(0x0A)
        case UInt8(ascii: "r"): text.append(0x0D)
        case UInt8(ascii: "t"): text.append(0x09)
        case UInt8(ascii: "u"): text.append(contentsOf: Array(String(try unicodeEscape()).utf8))
        default: throw error("unknown escape in a string", at: index - 1)
        }
    }

    private mutating func unicodeEscape() throws(JSONError) -> Character {
        let first = try hexadecimal()
        if let scalar = Unicode.Scalar(first) { return Character(scalar) }
        // A scalar beyond U+FFFF is two escapes, a surrogate pair (RFC 8259 §7); half of one is no text.
        guard first < 0xDC00, index + 1 < bytes.count, bytes[index] == 0x5C, bytes[index + 1] == UInt8(ascii: "u")
        else { throw error("half of a surrogate pair in a string") }
        index += 2
        let second = try hexadecimal()
        guard (0xDC00...0xDFFF).contains(second),
            let scalar = Unicode.Scalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00))
        else { throw error("half of a surrogate pair in a string") }
        return Character(scalar)
    }

    private mutating func hexadecimal() throws(JSONError) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard index < bytes.count, let digit = Character(Unicode.Scalar(bytes[index])).hexDigitValue else {
                throw error("four hexadecimal digits are expected after \\u")
            }
            value = value << 4 | UInt32(digit)
            index += 1
        }
        return value
    }

    func text(_ slice: ArraySlice<UInt8>, at offset: Int) throws(JSONError) -> String {
        if slice.allSatisfy({ $0 < 0x80 }) { return String(decoding: slice, as: UTF8.self) }
        guard let text = String(validating: slice, as: UTF8.self) else {
            throw error("a string is not valid UTF-8", at: offset)
        }
        guard CombiningMarks.areFew(in: text) else {
            throw error("a string has more than \(CombiningMarks.maxRun) combining marks in a row", at: offset)
        }
        return text
    }

    mutating func skipBlanks() {
        while index < bytes.count, Self.isBlank(bytes[index]) { index += 1 }
    }

    static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 }

    private mutating func skip(_ symbol: Unicode.Scalar) -> Bool {
        skipBlanks()
        guard index < bytes.count, bytes[index] == UInt8(ascii: symbol) else { return false }
        index += 1
        return true
    }

    func error(_ reason: String, at offset: Int? = nil) -> JSONError {
        JSONError(reason, at: offset ?? index, in: bytes)
    }
}
