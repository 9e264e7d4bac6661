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
        let (assembler, sets) = try Self.assembled(text)
        program = assembler.finished()
        self.sets = sets.map(\.prepared)
    }

    /// Instructions that `text` becomes, at least. Asks for no prepared set: one that folds case takes thousands of
    /// look-ups in the tables of Unicode.
    ///
    /// - Throws: like ``init(parsing:)``.
    static func size(of text: String) throws(Pattern.SyntaxError) -> Int { try assembled(text).0.size }

    private static func assembled(_ text: String) throws(Pattern.SyntaxError) -> (Assembler, [ScalarSet]) {
        guard text.unicodeScalars.dropFirst(maxLength).isEmpty else {
            throw Pattern.SyntaxError(reason: "it is longer than \(maxLength) characters")
        }
        var parser = Parser(text)
        var assembler = Assembler()
        try assembler.append(try parser.pattern())
        return (assembler, parser.sets.all)
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
        /// Parts that became no instruction.
        private var blanks = 0
        private var here: UInt32 { UInt32(program.count) }

        /// Instructions of the finished program, and the parts that became none, which were work too.
        var size: Int { program.count + blanks + 1 }

        func finished() -> [Pattern.Instruction] { program + [Pattern.Instruction(kind: .match, operand: 0)] }

        /// - Throws: when the program has become too large. Nothing counts as one, or repeating it a thousand times a
        ///   thousand times would look like no work.
        mutating func append(_ syntax: Syntax) throws(SyntaxError) {
            let start = program.count
            switch syntax {
            case .scalar(let value): emit(.scalar, value)
            case .set(let set): emit(.set, set)
            case .assertion(let assertion): emit(.assertion, UInt32(assertion.rawValue))
            case .sequence(let parts): for part in parts { try append(part) }
            case .alternatives(let parts): try append(alternatives: parts)
            case .repetition(let part, let least, let most): try append(part, least: least, most: most)
            }
            if program.count == start { blanks += 1 }
            guard size <= Pattern.maxSize else {
                throw SyntaxError(reason: "it is too large (a repetition counts as often as it repeats)")
            }
        }

        private mutating func emit(_ kind: Pattern.Instruction.Kind, _ operand: UInt32 = 0, _ other: UInt32 = 0) {
            program.append(Pattern.Instruction(kind: kind, operand: operand, other: other))
        }

        private mutating func append(alternatives parts: [Syntax]) throws(SyntaxError) {
            var ends: [Int] = []
            for part in parts.dropLast() {
                let split = program.count
                // The first way is the next instruction; the other one is set when its place is known.
                emit(.split, here + 1)
                try append(part)
                ends.append(program.count)
                emit(.jump)
                program[split].other = here
            }
            // The last alternative needs no split: there is nothing else to try.
            if let last = parts.last { try append(last) }
            for end in ends { program[end].operand = here }
        }

        private mutating func append(_ part: Syntax, least: Int, most: Int?) throws(SyntaxError) {
            // Repetitions are copies of the part.
            for _ in 0..<least { try append(part) }
            guard let most else { return try appendLoop(part) }
            var splits: [Int] = []
            for _ in least..<most {
                splits.append(program.count)
                emit(.split, here + 1)
                try append(part)
            }
            for split in splits { program[split].other = here }
        }

        private mutating func appendLoop(_ part: Syntax) throws(SyntaxError) {
            let split = program.count
            emit(.split, here + 1)
            try append(part)
            emit(.jump, UInt32(split))
            program[split].other = here
        }
    }
}
