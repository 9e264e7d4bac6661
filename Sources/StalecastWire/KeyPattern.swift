/// A glob over parameter names: `*` stands for any run of characters, `?` for exactly one; the rest is literal.
/// For example `pay_*` matches `pay_limit`. It has 1 to 256 characters of `[A-Za-z0-9_*?]`.
package struct KeyPattern: Sendable, Hashable, CustomStringConvertible {
    /// The glob as it was given.
    package let description: String
    private let glob: [UInt8]

    private static let star = UInt8(ascii: "*")
    private static let question = UInt8(ascii: "?")

    package init(_ glob: String) throws(InvalidName) {
        let legal = glob.utf8.allSatisfy { $0.isASCIIAlphanumeric || "_*?".utf8.contains($0) }
        guard legal, (1...256).contains(glob.utf8.count) else {
            throw InvalidName(description: "a key pattern has 1 to 256 characters of A-Z a-z 0-9 _ * ?")
        }
        description = glob
        self.glob = Array(glob.utf8)
    }

    /// True when the whole of `key` fits. Only the last `*` is ever reconsidered, so that the cost is at most
    /// length of the pattern times length of the key, whatever the pattern.
    package func matches(_ key: String) -> Bool {
        var key = key
        return key.withUTF8 { matches(bytes: $0) }
    }

    private func matches(bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        var position = 0
        var index = 0
        var lastStar: (next: Int, consumed: Int)?
        while index < bytes.count {
            if position < glob.count, glob[position] == Self.star {
                position += 1
                lastStar = (position, index)
            } else if position < glob.count, glob[position] == Self.question || glob[position] == bytes[index] {
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
        return glob[position...].allSatisfy { $0 == Self.star }
    }
}
