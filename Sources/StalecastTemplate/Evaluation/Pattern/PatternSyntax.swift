extension Pattern {
    /// Parts of a regular expression. Which of several matches is found makes no difference here, so captures and
    /// laziness have left no trace.
    struct Syntax: Sendable {
        let form: Form
        /// Instructions it becomes, at most ``Pattern/maxSize`` + 1. Worked out once, from its parts', when it is made: asking
        /// a tree for it again at each level takes 2 to the depth.
        let size: Int

        indirect enum Form: Sendable {
            case empty
            case scalar(UInt32)
            /// A set's place in ``Pattern.Parser/sets``.
            case set(UInt32)
            case assertion(Pattern.Assertion)
            case sequence([Pattern.Syntax])
            case alternatives([Pattern.Syntax])
            /// Repetition, at least `least` times and at most `most`; nil is without end.
            case repetition(Pattern.Syntax, least: Int, most: Int?)
        }

        static let empty = Pattern.Syntax(.empty, size: 0)

        static func scalar(_ value: UInt32) -> Self { Self(.scalar(value), size: 1) }
        static func set(_ place: UInt32) -> Self { Self(.set(place), size: 1) }
        static func assertion(_ assertion: Pattern.Assertion) -> Self { Self(.assertion(assertion), size: 1) }

        static func sequence(_ parts: [Pattern.Syntax]) -> Self {
            switch parts.count {
            case 0: empty
            case 1: parts[0]
            default: Self(.sequence(parts), size: parts.reduce(0) { $0 + $1.size })
            }
        }

        static func alternatives(_ parts: [Pattern.Syntax]) -> Self {
            // Each one needs at most a split and a jump.
            parts.count == 1 ? parts[0] : Self(.alternatives(parts), size: parts.reduce(0) { $0 + $1.size + 2 })
        }

        /// Nothing counts as one, or repeating it a thousand times a thousand times would look like no work.
        static func repetition(_ part: Pattern.Syntax, least: Int, most: Int?) -> Self {
            // An optional copy has a split, and a loop has a split and a jump.
            let optional = most.map { (part.size + 1) * ($0 - least) } ?? part.size + 2
            return Self(.repetition(part, least: least, most: most), size: max(1, part.size) * least + optional)
        }

        /// A part has at most ``Pattern/maxSize`` + 1, and the parser bounds parts and repetitions: no sum overflows.
        private init(_ form: Form, size: Int) {
            self.form = form
            self.size = min(size, Pattern.maxSize + 1)
        }
    }

    /// Places a pattern can ask for without taking a character.
    enum Assertion: UInt8, Sendable, Hashable {
        case textStart
        case textEnd
        case lineStart
        case lineEnd
        case wordBoundary
        case noWordBoundary
    }

    /// Reason why a regular expression is refused.
    struct SyntaxError: Error, Hashable {
        /// A sentence without its full stop, for example `backreferences are not supported`.
        let reason: String
    }
}
