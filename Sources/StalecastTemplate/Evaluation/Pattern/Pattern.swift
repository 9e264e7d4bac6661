/// A regular expression of RE2, found anywhere in a text, in time linear in the text whatever the expression: all
/// ways through the program are followed at once, none is tried twice at one place.
struct Pattern: Sendable {
    let program: [PatternInstruction]
    let sets: [PatternScalarSet]

    /// Instructions of one expression.
    static let maxSize = 2000
    /// Characters of one expression; more cannot be needed for so many instructions, but for long classes.
    static let maxLength = 2000

    /// - Throws: ``PatternError`` when it is no expression of RE2, or a too large one.
    init(parsing text: String) throws(PatternError) {
        let (syntax, sets) = try Self.syntax(of: text)
        var assembler = PatternAssembler()
        assembler.append(syntax)
        program = assembler.finished()
        self.sets = sets.map(\.prepared)
    }

    /// Instructions `text` takes, found without making them.
    /// - Throws: like ``init(parsing:)``.
    static func size(of text: String) throws(PatternError) -> Int { try syntax(of: text).0.size + 1 }

    private static func syntax(of text: String) throws(PatternError) -> (PatternSyntax, [PatternScalarSet]) {
        guard text.unicodeScalars.dropFirst(maxLength).isEmpty else {
            throw PatternError(reason: "it is longer than \(maxLength) characters")
        }
        var parser = PatternParser(text)
        return (try parser.pattern(), parser.sets)
    }
}

/// One step of a pattern's program.
struct PatternInstruction: Sendable, Hashable {
    var kind: Kind
    /// A scalar, a set's place, an assertion, or the place to go on at.
    var operand: UInt32
    /// The other place to go on at, of ``Kind/split``.
    var other: UInt32 = 0

    enum Kind: UInt8, Sendable {
        case scalar
        case set
        case assertion
        case jump
        case split
        case match
    }
}

/// Turns syntax into a program.
struct PatternAssembler {
    private var program: [PatternInstruction] = []

    private var here: UInt32 { UInt32(program.count) }

    func finished() -> [PatternInstruction] { program + [PatternInstruction(kind: .match, operand: 0)] }

    mutating func append(_ syntax: PatternSyntax) {
        switch syntax.form {
        case .empty: break
        case .scalar(let value): emit(.scalar, value)
        case .set(let set): emit(.set, set)
        case .assertion(let assertion): emit(.assertion, UInt32(assertion.rawValue))
        case .sequence(let parts): for part in parts { append(part) }
        case .alternatives(let parts): append(alternatives: parts)
        case .repetition(let part, let least, let most): append(part, least: least, most: most)
        }
    }

    private mutating func emit(_ kind: PatternInstruction.Kind, _ operand: UInt32 = 0, _ other: UInt32 = 0) {
        program.append(PatternInstruction(kind: kind, operand: operand, other: other))
    }

    private mutating func append(alternatives parts: [PatternSyntax]) {
        var ends: [Int] = []
        for part in parts.dropLast() {
            let split = program.count
            emit(.split, here + 1)
            append(part)
            ends.append(program.count)
            emit(.jump)
            program[split].other = here
        }
        if let last = parts.last { append(last) }
        for end in ends { program[end].operand = here }
    }

    private mutating func append(_ part: PatternSyntax, least: Int, most: Int?) {
        for _ in 0..<least { append(part) }
        guard let most else { return appendLoop(part) }
        var splits: [Int] = []
        for _ in least..<most {
            splits.append(program.count)
            emit(.split, here + 1)
            append(part)
        }
        for split in splits { program[split].other = here }
    }

    private mutating func appendLoop(_ part: PatternSyntax) {
        let split = program.count
        emit(.split, here + 1)
        append(part)
        emit(.jump, UInt32(split))
        program[split].other = here
    }
}
