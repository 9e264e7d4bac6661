extension Pattern {
    /// Parts of a regular expression. Which of several matches is found makes no difference here, so captures and
    /// laziness have left no trace.
    indirect enum Syntax: Sendable {
        case scalar(UInt32)
        /// A set's place in ``Pattern/Parser/sets``.
        case set(UInt32)
        case assertion(Assertion)
        /// Empty for nothing.
        case sequence([Syntax])
        case alternatives([Syntax])
        /// Repetition, at least `least` times and at most `most`; nil is without end.
        case repetition(Syntax, least: Int, most: Int?)
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
