extension Pattern.Parser {
    /// An escape outside brackets.
    mutating func escape() throws(Pattern.SyntaxError) -> Pattern.Syntax {
        if let kind = peek(1).flatMap(Self.assertion) {
            index += 2
            return .assertion(kind)
        }
        if var set = try classEscape() {
            set.foldsCase = flags.foldsCase
            return syntax(of: set)
        }
        return literal(try scalarEscape())
    }

    private static func assertion(_ letter: Unicode.Scalar) -> Pattern.Assertion? {
        switch letter {
        case "A": .textStart
        case "z": .textEnd
        case "b": .wordBoundary
        case "B": .noWordBoundary
        default: nil
        }
    }

    /// `\d` and its like, and `\p{…}`; nil, nothing taken, for other escapes.
    private mutating func classEscape() throws(Pattern.SyntaxError) -> Pattern.ScalarSet? {
        let set: Pattern.ScalarSet
        switch peek(1) {
        case "d": set = .digits
        case "D": set = .digits.negated
        case "s": set = .blanks
        case "S": set = .blanks.negated
        case "w": set = .wordCharacters
        case "W": set = .wordCharacters.negated
        case "p", "P": return try categoryEscape()
        default: return nil
        }
        index += 2
        return set
    }

    /// `\pL`, `\p{Lu}`, `\P{…}`, `\p{^…}`.
    private mutating func categoryEscape() throws(Pattern.SyntaxError) -> Pattern.ScalarSet {
        var isNegated = peek(1) == "P"
        index += 2
        var name = ""
        if skip("{") {
            if skip("^") { isNegated.toggle() }
            while let next = peek, next != "}" {
                name.unicodeScalars.append(next)
                index += 1
            }
            guard skip("}") else { throw Pattern.SyntaxError(reason: "a '\\p{' is not closed") }
        } else {
            name.unicodeScalars.append(try take("a '\\p'"))
        }
        guard Pattern.ScalarSet.categories.contains(name) else {
            throw Pattern.SyntaxError(
                reason: "'\\p{\(name.shown)}' is not supported, only general categories such as L or Nd")
        }
        var set = Pattern.ScalarSet()
        set.insert(category: name)
        set.isNegated = isNegated
        return set
    }

    /// An escape that stands for one character, its backslash next.
    private mutating func scalarEscape() throws(Pattern.SyntaxError) -> UInt32 {
        index += 1
        let letter = try take("the escape at the end")
        switch letter {
        case "a": return 0x07
        case "f": return 0x0C
        case "t": return 0x09
        case "n": return 0x0A
        case "r": return 0x0D
        case "v": return 0x0B
        case "x": return try hexadecimal()
        case "0": return octal()
        case "1"..."9": throw Pattern.SyntaxError(reason: "backreferences are not supported")
        case "A"..."Z", "a"..."z": throw Pattern.SyntaxError(reason: "the escape '\\\(letter)' is not supported")
        case let other where other.isASCII: return other.value
        default: throw Pattern.SyntaxError(reason: "a character beyond ASCII cannot be escaped")
        }
    }

    private mutating func octal() -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<2 {
            guard let digit = peek, ("0"..."7").contains(digit) else { break }
            value = value * 8 + digit.value - 0x30
            index += 1
        }
        return value
    }

    private mutating func hexadecimal() throws(Pattern.SyntaxError) -> UInt32 {
        let isBraced = skip("{")
        var value: UInt32 = 0
        var count = 0
        while let digit = peek, let number = Character(digit).hexDigitValue, digit.isASCII, isBraced || count < 2 {
            // Stays just above the last scalar, so that many digits cannot overflow.
            value = min(value * 16 + UInt32(number), 0x11_0000)
            count += 1
            index += 1
        }
        let isComplete = isBraced ? count > 0 && skip("}") : count == 2
        guard isComplete, Unicode.Scalar(value) != nil else {
            throw Pattern.SyntaxError(reason: "after '\\x' two hexadecimal digits are expected, or some in braces")
        }
        return value
    }
}

extension Pattern.Parser {
    /// `[…]`, its bracket next.
    mutating func bracketClass() throws(Pattern.SyntaxError) -> Pattern.ScalarSet {
        var set = Pattern.ScalarSet()
        set.foldsCase = flags.foldsCase
        index += 1
        set.isNegated = skip("^")
        var isFirst = true
        while isFirst || peek != "]" {
            if peek == nil { throw Pattern.SyntaxError(reason: "a '[' is not closed") }
            try classMember(into: &set)
            isFirst = false
        }
        index += 1
        return set
    }

    private mutating func classMember(into set: inout Pattern.ScalarSet) throws(Pattern.SyntaxError) {
        if peek == "[", peek(1) == ":", let named = try posixClass() { return set.insert(named) }
        if peek == "\\", let nested = try classEscape() { return set.insert(nested) }
        let lower = try classScalar()
        guard peek == "-", let next = peek(1), next != "]" else { return set.insert(lower...lower) }
        index += 1
        let upper = try classScalar()
        guard lower <= upper else { throw Pattern.SyntaxError(reason: "a range in brackets goes backwards") }
        set.insert(lower...upper)
    }

    private mutating func classScalar() throws(Pattern.SyntaxError) -> UInt32 {
        if peek == "\\" { return try scalarEscape() }
        return try take("a '['").value
    }

    /// `[:name:]` or `[:^name:]`; nil, nothing taken, when the bracket is only a character.
    private mutating func posixClass() throws(Pattern.SyntaxError) -> Pattern.ScalarSet? {
        if lacksClassEnd { return nil }
        var end = index + 2
        while end + 1 < scalars.count, !(scalars[end] == 0x3A && scalars[end + 1] == 0x5D) { end += 1 }
        guard end + 1 < scalars.count else {
            lacksClassEnd = true
            return nil
        }
        var name = String(String.UnicodeScalarView(scalars[index + 2..<end].compactMap(Unicode.Scalar.init)))
        let isNegated = name.hasPrefix("^")
        if isNegated { name.removeFirst() }
        guard let set = Pattern.ScalarSet.posix(name) else {
            throw Pattern.SyntaxError(reason: "'[:\(name.shown):]' is not a class")
        }
        index = end + 2
        return isNegated ? set.negated : set
    }
}
