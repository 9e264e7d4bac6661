/// A pattern for a whole name: `*` stands for any run of characters, `?` for exactly one; the rest is literal.
package struct Glob: Sendable, Hashable, CustomStringConvertible {
    /// The pattern as it was given.
    package let description: String
    private let bytes: [UInt8]

    private static let star = UInt8(ascii: "*")
    private static let question = UInt8(ascii: "?")

    package init(_ pattern: String) {
        description = pattern
        bytes = Array(pattern.utf8)
    }

    /// True when the whole of `name` fits. Only the last `*` is ever reconsidered, so that the cost is at most
    /// length of the pattern times length of the name, whatever the pattern.
    package func matches(_ name: String) -> Bool {
        var name = name
        return name.withUTF8 { matches($0) }
    }

    private func matches(_ name: UnsafeBufferPointer<UInt8>) -> Bool {
        var position = 0
        var index = 0
        var lastStar: (next: Int, consumed: Int)?
        while index < name.count {
            if position < bytes.count, bytes[position] == Self.star {
                position += 1
                lastStar = (position, index)
            } else if position < bytes.count, bytes[position] == Self.question || bytes[position] == name[index] {
                position += 1
                index += 1
            } else if let star = lastStar {
                lastStar = (star.next, star.consumed + 1)
                position = star.next
                index = star.consumed + 1
            } else {
                return false
            }
        }
        return bytes[position...].allSatisfy { $0 == Self.star }
    }
}
