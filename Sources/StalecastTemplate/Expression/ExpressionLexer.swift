import StalecastWire

extension ExpressionLexer {
    /// A token of the condition language and the byte it starts at.
    struct Token: Hashable {
        var kind: Kind
        var start: Int

        enum Kind: Hashable {
            /// Letters, digits and `_`, a letter or `_` first.
            case word(String)
            /// A quoted text, unquoted and unescaped.
            case text(String)
            /// A number's own characters.
            case number(String)
            case comparison(ConditionExpression.Comparison)
            /// One of `. ( ) [ ] ,`
            case punctuation(Unicode.Scalar)
            case and
            case or
            case not
            case end
        }

        /// Name of the token in a message.
        var shown: String {
            switch kind {
            case .word(let word): "'\(word.shown)'"
            case .text(let text): "the text '\(text.shown)'"
            case .number(let number): "the number \(number.shown)"
            case .comparison(let comparison): "'\(comparison.rawValue)'"
            case .punctuation(let scalar): "'\(scalar)'"
            case .and: "'&&'"
            case .or: "'||'"
            case .not: "'!'"
            case .end: "the end"
            }
        }
    }
}

/// Cuts an expression into tokens, one at a time, each byte looked at a bounded number of times.
struct ExpressionLexer {
    let bytes: [UInt8]
    /// Index of the next byte; after `next()` the end of the token.
    private(set) var index = 0

    init(_ text: String) { bytes = Array(text.utf8) }

    mutating func next() throws(ExpressionError) -> ExpressionLexer.Token {
        while index < bytes.count, Self.isBlank(bytes[index]) { index += 1 }
        let start = index
        guard start < bytes.count else { return ExpressionLexer.Token(kind: .end, start: start) }
        return ExpressionLexer.Token(kind: try kind(bytes[start]), start: start)
    }

    static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }

    func error(_ reason: String, at byte: Int) -> ExpressionError {
        ExpressionError(byte: byte, in: bytes, reason: reason)
    }

    private mutating func kind(_ first: UInt8) throws(ExpressionError) -> ExpressionLexer.Token.Kind {
        switch Unicode.Scalar(first) {
        case "A"..."Z", "a"..."z", "_": return .word(run { $0.isASCIIAlphanumeric || $0 == UInt8(ascii: "_") })
        case "'", "\"": return .text(try quoted(by: first))
        // The language has no arithmetic: a sign always begins a number.
        case "0"..."9", "+", "-": return .number(number())
        // `.5` is a number, and in `app.version` the dot is punctuation.
        case ".": return isDigit(at: index + 1) ? .number(number()) : punctuation(first)
        case "(", ")", "[", "]", ",": return punctuation(first)
        case "<": return .comparison(skipPair("=") ? .lessOrEqual : .less)
        case ">": return .comparison(skipPair("=") ? .greaterOrEqual : .greater)
        case "!": return skipPair("=") ? .comparison(.notEqual) : .not
        case "=" where skipPair("="): return .comparison(.equal)
        case "=": throw error("'=' is not part of the language here, equal is '=='", at: index)
        case "&" where skipPair("&"): return .and
        case "|" where skipPair("|"): return .or
        default: throw error("\(shownScalar(at: index)) is not part of the language here", at: index)
        }
    }

    private mutating func run(_ belongs: (UInt8) -> Bool) -> String {
        let start = index
        while index < bytes.count, belongs(bytes[index]) { index += 1 }
        return String(decoding: bytes[start..<index], as: UTF8.self)
    }

    private mutating func number() -> String {
        let start = index
        if bytes[index] == UInt8(ascii: "+") || bytes[index] == UInt8(ascii: "-") { index += 1 }
        while isDigit(at: index) { index += 1 }
        // One dot is enough: versions with more are quoted.
        if index < bytes.count, bytes[index] == UInt8(ascii: ".") { index += 1 }
        while isDigit(at: index) { index += 1 }
        return String(decoding: bytes[start..<index], as: UTF8.self)
    }

    private func isDigit(at index: Int) -> Bool { index < bytes.count && (0x30...0x39).contains(bytes[index]) }

    private mutating func punctuation(_ byte: UInt8) -> ExpressionLexer.Token.Kind {
        index += 1
        return .punctuation(Unicode.Scalar(byte))
    }

    /// Takes one character, and a second one when it is `second`; false, and for `= & |` nothing taken, otherwise.
    private mutating func skipPair(_ second: Unicode.Scalar) -> Bool {
        let isPair = index + 1 < bytes.count && bytes[index + 1] == UInt8(ascii: second)
        let standsAlone = "<>!".utf8.contains(bytes[index])
        index += isPair ? 2 : standsAlone ? 1 : 0
        return isPair
    }

    /// Only the quote itself can be escaped; other backslashes stay, since regular expressions are full of them. A
    /// doubled backslash stays doubled and escapes nothing.
    private mutating func quoted(by quote: UInt8) throws(ExpressionError) -> String {
        let start = index
        var text: [UInt8] = []
        index += 1
        while index < bytes.count, bytes[index] != quote {
            if bytes[index] < 0x20 { throw error("a control character is not allowed in a text", at: index) }
            if bytes[index] == UInt8(ascii: "\\"), index + 1 < bytes.count {
                let next = bytes[index + 1]
                // A doubled backslash stays two, because a regular expression reads it.
                if next == UInt8(ascii: "\\") { text.append(next) }
                if next == UInt8(ascii: "\\") || next == quote { index += 1 }
            }
            text.append(bytes[index])
            index += 1
        }
        guard index < bytes.count else { throw error("the quotes opened here are not closed", at: start) }
        index += 1
        return String(decoding: text, as: UTF8.self)
    }

    private func shownScalar(at index: Int) -> String {
        let text = String(decoding: bytes[index..<min(index + 4, bytes.count)], as: UTF8.self)
        return "'\(String(text.unicodeScalars.prefix(1)).shown)'"
    }
}
