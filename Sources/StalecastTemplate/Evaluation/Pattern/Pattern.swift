/// A regular expression of RE2, found anywhere in a text, in time linear in the text whatever the expression: all
/// ways through the program are followed at once, none is tried twice at one place.
struct Pattern: Sendable {
    let program: [Pattern.Instruction]
    let sets: [Pattern.ScalarSet]

    /// Instructions of one expression.
    static let maxSize = 2000
    /// Characters of one expression; more cannot be needed for so many instructions, but for long classes.
    static let maxLength = 2000

    /// - Throws: ``Pattern.SyntaxError`` when it is no expression of RE2, or a too large one.
    init(parsing text: String) throws(Pattern.SyntaxError) {
        let (syntax, sets) = try Self.syntax(of: text)
        var assembler = Pattern.Assembler()
        assembler.append(syntax)
        program = assembler.finished()
        self.sets = sets.map(\.prepared)
    }

    /// Instructions `text` takes, found without making them.
    /// - Throws: like ``init(parsing:)``.
    static func size(of text: String) throws(Pattern.SyntaxError) -> Int { try syntax(of: text).0.size + 1 }

    private static func syntax(of text: String) throws(Pattern.SyntaxError) -> (Pattern.Syntax, [Pattern.ScalarSet]) {
        guard text.unicodeScalars.dropFirst(maxLength).isEmpty else {
            throw Pattern.SyntaxError(reason: "it is longer than \(maxLength) characters")
        }
        var parser = Pattern.Parser(text)
        return (try parser.pattern(), parser.sets)
    }
}

extension Pattern {
    /// One step of a pattern's program.
    struct Instruction: Sendable, Hashable {
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
    struct Assembler {
        private var program: [Pattern.Instruction] = []

        private var here: UInt32 { UInt32(program.count) }

        func finished() -> [Pattern.Instruction] { program + [Pattern.Instruction(kind: .match, operand: 0)] }

        mutating func append(_ syntax: Pattern.Syntax) {
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

        private mutating func emit(_ kind: Pattern.Instruction.Kind, _ operand: UInt32 = 0, _ other: UInt32 = 0) {
            program.append(Pattern.Instruction(kind: kind, operand: operand, other: other))
        }

        private mutating func append(alternatives parts: [Pattern.Syntax]) {
            var ends: [Int] = []
            for part in parts.dropLast() {
                let split = program.count
                // The first way is the next instruction; the other one is set when its place is known.
                emit(.split, here + 1)
                append(part)
                ends.append(program.count)
                emit(.jump)
                program[split].other = here
            }
            // The last alternative needs no split: there is nothing else to try.
            if let last = parts.last { append(last) }
            for end in ends { program[end].operand = here }
        }

        private mutating func append(_ part: Pattern.Syntax, least: Int, most: Int?) {
            // Repetitions are copies of the part; the parser has bounded their number.
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

        private mutating func appendLoop(_ part: Pattern.Syntax) {
            let split = program.count
            emit(.split, here + 1)
            append(part)
            emit(.jump, UInt32(split))
            program[split].other = here
        }
    }
}
