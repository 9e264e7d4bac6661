/// The number of a version within its scope: 1, 2, 3 …; 0 means "no version yet".
/// Its range is checked where it is made, so that no number from outside (an origin's, a client's, a database's) can
/// make arithmetic trap later: differences fit in 64 bits, and a result outside the range is clamped. Code that hands
/// out numbers uses ``next``, which is nil at the end of the range.
package struct VersionNumber: Hashable, Sendable, LosslessStringConvertible, ExpressibleByIntegerLiteral {
    package let rawValue: Int64

    /// 2⁵³, the last integer up to which JavaScript's numbers are exact; a thousand of them still add up in 64 bits.
    package static let max: VersionNumber = 9_007_199_254_740_992

    /// nil for a number outside 0 to ``max``.
    @inlinable
    package init?(exactly value: some BinaryInteger) {
        self.init(clamping: value)
        if rawValue != value { return nil }
    }

    /// The nearest number in range, for databases of older programs, which did not check the range.
    @inlinable
    package init(clamping value: some BinaryInteger) {
        rawValue = Swift.min(Swift.max(Int64(clamping: value), 0), Self.max.rawValue)
    }

    /// nil for a text that is not a decimal number from 0 to ``max``.
    @inlinable
    package init?(_ text: some StringProtocol) {
        guard let value = Int64(text) else { return nil }
        self.init(exactly: value)
    }

    /// Makes a number without a call to ``max``, which is made with this.
    package init(integerLiteral value: Int64) {
        precondition((0...(1 << 53)).contains(value), "a version number in the program's text is in range")
        rawValue = value
    }

    /// The number after this one; nil after ``max``.
    package var next: VersionNumber? { VersionNumber(exactly: rawValue + 1) }

    package var description: String { String(rawValue) }

    package static func + (number: Self, steps: Int) -> Self { number.advanced(by: steps) }
    package static func - (number: Self, steps: Int) -> Self { number.advanced(by: 0 - Swift.max(steps, -Int.max)) }
    package static func - (a: Self, b: Self) -> Int64 { a.rawValue - b.rawValue }
}

extension VersionNumber: Strideable {
    package func distance(to other: Self) -> Int { Int(other.rawValue - rawValue) }

    /// Stays in range.
    package func advanced(by steps: Int) -> Self {
        VersionNumber(
            clamping: rawValue.addingReportingOverflow(Int64(steps)).overflow ? .max : rawValue + Int64(steps))
    }
}
