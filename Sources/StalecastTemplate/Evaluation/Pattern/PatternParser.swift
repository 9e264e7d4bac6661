extension Pattern {
    /// Reads RE2's syntax. What RE2 refuses (look-around, backreferences, possessive repetition) is refused here, and so
    /// is the little of RE2 that is missing here: scripts in `\p{…}` and `\C`.
    struct Parser {
        var flags = Flags()
        private(set) var scalars: [UInt32]
        var index = 0
        /// Each set of the pattern once; the syntax names them by their place, so that a class that is repeated is not
        /// compared and hashed with each repetition.
        private(set) var sets = Places<ScalarSet>()
        /// True after a search for `:]` found none up to the end of the text: a later search would find none either.
        var lacksClassEnd = false
        private var depth = 0

        struct Flags {
            /// `i`
            var foldsCase = false
            /// `m`
            var isMultiline = false
            /// `s`
            var dotTakesLineEnd = false
        }

        /// Nesting of groups accepted; recursion is bounded by it.
        static let maxDepth = 50
        /// RE2's limit of `{n,m}`.
        static let maxRepetition = 1000

        init(_ text: String) { scalars = text.unicodeScalars.map(\.value) }

        mutating func pattern() throws(SyntaxError) -> Syntax {
            let syntax = try alternatives()
            if peek != nil { throw SyntaxError(reason: "there is a ')' without its '('") }
            return syntax
        }

        private mutating func alternatives() throws(SyntaxError) -> Syntax {
            var parts = [try sequence()]
            while skip("|") { parts.append(try sequence()) }
            return parts.count == 1 ? parts[0] : .alternatives(parts)
        }

        private mutating func sequence() throws(SyntaxError) -> Syntax {
            var parts: [Syntax] = []
            while let next = peek, next != "|", next != ")" {
                if let quoted = quotedText() {
                    // A repetition after `\E` repeats the last character only.
                    for scalar in quoted.dropLast() { parts.append(literal(scalar)) }
                    guard let last = quoted.last else { continue }
                    parts.append(try repeated(literal(last)))
                } else if let atom = try atom() {
                    parts.append(try repeated(atom))
                }
            }
            return parts.count == 1 ? parts[0] : .sequence(parts)
        }

        mutating func syntax(of set: ScalarSet) -> Syntax { .set(UInt32(sets.place(of: set))) }

        /// `\Q…\E`; nil when there is none here. Without `\E` it goes to the end.
        private mutating func quotedText() -> [UInt32]? {
            guard peek == "\\", peek(1) == "Q" else { return nil }
            index += 2
            var text: [UInt32] = []
            while index < scalars.count {
                if peek == "\\", peek(1) == "E" {
                    index += 2
                    return text
                }
                text.append(scalars[index])
                index += 1
            }
            return text
        }

        /// nil for a group that only sets flags.
        private mutating func atom() throws(SyntaxError) -> Syntax? {
            guard let scalar = peek else { return .sequence([]) }
            switch scalar {
            case "(": return try group()
            case "[": return syntax(of: try bracketClass())
            case "\\": return try escape()
            case "*", "+", "?": throw SyntaxError(reason: "there is nothing '\(scalar)' could repeat")
            case "{" where try repetitionBounds(consume: false) != nil:
                throw SyntaxError(reason: "there is nothing '{' could repeat")
            default: break
            }
            index += 1
            switch scalar {
            case ".": return syntax(of: ScalarSet(flags.dotTakesLineEnd ? [] : [0x0A...0x0A], isNegated: true))
            case "^": return .assertion(flags.isMultiline ? .lineStart : .textStart)
            case "$": return .assertion(flags.isMultiline ? .lineEnd : .textEnd)
            default: return literal(scalar.value)
            }
        }

        mutating func literal(_ value: UInt32) -> Syntax {
            guard flags.foldsCase else { return .scalar(value) }
            var set = ScalarSet([value...value])
            set.foldsCase = true
            return syntax(of: set)
        }

        private mutating func group() throws(SyntaxError) -> Syntax? {
            depth += 1
            defer { depth -= 1 }
            if depth > Self.maxDepth {
                throw SyntaxError(reason: "groups are nested deeper than \(Self.maxDepth) levels")
            }
            // Flags that are set within a group end with it.
            let outer = flags
            index += 1
            if skip("?") {
                let opens = try groupOpening()
                // `(?i)` sets flags up to the end of the enclosing group.
                if !opens { return nil }
            }
            let syntax = try alternatives()
            guard skip(")") else { throw SyntaxError(reason: "a '(' is not closed") }
            flags = outer
            return syntax
        }

        /// Reads the text after `(?`: a name, or flags. False when the group is closed already and only sets flags.
        private mutating func groupOpening() throws(SyntaxError) -> Bool {
            if peek == "=" || peek == "!" { throw SyntaxError(reason: "look-ahead is not supported") }
            if peek == "<", peek(1) == "=" || peek(1) == "!" {
                throw SyntaxError(reason: "look-behind is not supported")
            }
            if peek == "<" || (peek == "P" && peek(1) == "<") {
                index += peek == "P" ? 2 : 1
                try groupName()
                return true
            }
            return try groupFlags()
        }

        private mutating func groupName() throws(SyntaxError) {
            let start = index
            while let next = peek, next != ">" {
                guard ScalarSet.wordCharacters.lists(ascii: next.value) else {
                    throw SyntaxError(reason: "a group's name consists of letters, digits and '_'")
                }
                index += 1
            }
            guard index > start, skip(">") else { throw SyntaxError(reason: "a group's name is not complete") }
        }

        private mutating func groupFlags() throws(SyntaxError) -> Bool {
            var isOn = true
            while let next = peek {
                index += 1
                switch next {
                case "i": flags.foldsCase = isOn
                case "m": flags.isMultiline = isOn
                case "s": flags.dotTakesLineEnd = isOn
                // Swaps greedy and reluctant, which makes no difference here either.
                case "U": break
                case "-" where isOn: isOn = false
                case ":": return true
                case ")": return false
                default: throw SyntaxError(reason: "'(?\(next)' is not supported")
                }
            }
            throw SyntaxError(reason: "a '(' is not closed")
        }
    }
}

extension Pattern.Parser {
    var peek: Unicode.Scalar? { peek(0) }

    func peek(_ offset: Int) -> Unicode.Scalar? {
        index + offset < scalars.count ? Unicode.Scalar(scalars[index + offset]) : nil
    }

    /// Takes `scalar` when it is next.
    mutating func skip(_ scalar: Unicode.Scalar) -> Bool {
        guard peek == scalar else { return false }
        index += 1
        return true
    }

    /// Takes the next scalar, whatever it is.
    mutating func take(_ what: String) throws(Pattern.SyntaxError) -> Unicode.Scalar {
        guard let scalar = peek else { throw Pattern.SyntaxError(reason: "\(what) is not complete") }
        index += 1
        return scalar
    }

    /// `syntax` with the repetition that follows it, if one does.
    private mutating func repeated(_ syntax: Pattern.Syntax) throws(Pattern.SyntaxError) -> Pattern.Syntax {
        guard let (least, most) = try repetition() else { return syntax }
        // `*?` takes as little as it can. Whether there is a match does not depend on that.
        _ = skip("?")
        if try repetition() != nil {
            throw Pattern.SyntaxError(reason: "a repetition cannot be repeated without a group")
        }
        return .repetition(syntax, least: least, most: most)
    }

    private mutating func repetition() throws(Pattern.SyntaxError) -> (Int, Int?)? {
        if skip("*") { return (0, nil) }
        if skip("+") { return (1, nil) }
        if skip("?") { return (0, 1) }
        return peek == "{" ? try repetitionBounds(consume: true) : nil
    }

    /// `{n}`, `{n,}` or `{n,m}`; nil, nothing taken, when the brace is only a character.
    private mutating func repetitionBounds(consume: Bool) throws(Pattern.SyntaxError) -> (Int, Int?)? {
        let start = index
        var isRepetition = false
        defer { if !consume || !isRepetition { index = start } }
        guard skip("{"), let least = number() else { return nil }
        var most: Int? = least
        // -1 stands for text that is no number: then the brace is only a character.
        if skip(",") { most = peek == "}" ? nil : number() ?? -1 }
        guard most != -1, skip("}") else { return nil }
        isRepetition = true
        if max(least, most ?? 0) > Self.maxRepetition {
            throw Pattern.SyntaxError(reason: "a repetition of more than \(Self.maxRepetition) times is not supported")
        }
        if let most, most < least {
            throw Pattern.SyntaxError(reason: "a repetition's upper bound is below the lower one")
        }
        return (least, most)
    }

    /// Decimal digits, capped just beyond ``maxRepetition``.
    private mutating func number() -> Int? {
        var value: Int?
        while let digit = peek, ("0"..."9").contains(digit) {
            value = min((value ?? 0) * 10 + Int(digit.value - 0x30), Self.maxRepetition + 1)
            index += 1
        }
        return value
    }
}
