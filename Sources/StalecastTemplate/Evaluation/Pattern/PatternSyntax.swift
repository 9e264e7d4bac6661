/// What a regular expression is made of. Which of several matches is found makes no difference here, so captures and
/// laziness have left no trace.
indirect enum PatternSyntax: Sendable, Hashable {
    case empty
    case scalar(UInt32)
    case set(PatternScalarSet)
    case assertion(PatternAssertion)
    case sequence([PatternSyntax])
    case alternatives([PatternSyntax])
    /// At least `least` times, at most `most`; nil is without end.
    case repetition(PatternSyntax, least: Int, most: Int?)

    /// Instructions it becomes, capped at ``Pattern/maxSize`` + 1 so that nested repetitions cannot overflow.
    var size: Int { min(uncappedSize, Pattern.maxSize + 1) }

    private var uncappedSize: Int {
        switch self {
        case .empty: 0
        case .scalar, .set, .assertion: 1
        case .sequence(let parts): Self.cappedSum(parts, extra: 0)
        case .alternatives(let parts): Self.cappedSum(parts, extra: 2)
        case .repetition(let part, let least, let most):
            // Nothing counts as one, or repeating it a thousand times a thousand times would look like no work.
            max(1, part.size) * least + (most.map { (part.size + 1) * ($0 - least) } ?? part.size + 2)
        }
    }

    private static func cappedSum(_ parts: [PatternSyntax], extra: Int) -> Int {
        var sum = 0
        for part in parts where sum <= Pattern.maxSize { sum += part.size + extra }
        return sum
    }
}

/// Places a pattern can ask for without taking a character.
enum PatternAssertion: UInt8, Sendable, Hashable {
    case textStart
    case textEnd
    case lineStart
    case lineEnd
    case wordBoundary
    case noWordBoundary
}

/// Why a regular expression is refused.
struct PatternError: Error, Hashable {
    /// A sentence without its full stop, for example `backreferences are not supported`.
    let reason: String
}
