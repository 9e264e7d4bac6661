/// A dotted version as numbers, `2.1.0`. Zeros at the end make no difference; a number beyond 64 bits counts as the
/// greatest of 64.
struct VersionNumbers: Sendable, Comparable {
    private let segments: [UInt64]
    /// Parts as written, zeros at the end included.
    let segmentCount: Int

    init(_ literal: VersionLiteral) {
        var segments = literal.segments.map { segment in
            segment.isEmpty ? 0 : UInt64(segment) ?? .max
        }
        segmentCount = segments.count
        while segments.last == 0 { segments.removeLast() }
        self.segments = segments
    }

    /// nil when `text` is not digits and dots with a digit at both ends.
    init?(_ text: String) {
        guard let literal = VersionLiteral(text) else { return nil }
        self.init(literal)
    }

    static func == (a: Self, b: Self) -> Bool { a.segments == b.segments }
    static func < (a: Self, b: Self) -> Bool { a.segments.lexicographicallyPrecedes(b.segments) }
}

extension ConditionExpression.Comparison {
    /// Whether `a <operator> b`.
    func holds<Value: Comparable>(_ a: Value, _ b: Value) -> Bool {
        switch self {
        case .less: a < b
        case .lessOrEqual: a <= b
        case .equal: a == b
        case .notEqual: a != b
        case .greaterOrEqual: a >= b
        case .greater: a > b
        }
    }
}
