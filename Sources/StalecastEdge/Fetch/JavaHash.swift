/// Java's `String.hashCode`, which Firebase puts into the ETags of fetches: over UTF-16 units, `h = 31 * h + unit`,
/// wrapping at 32 bits. That of two texts together follows from theirs.
package struct JavaHash: Sendable {
    package private(set) var value: Int32 = 0
    /// 31 to the count of units.
    private var factor: Int32 = 1

    package init(_ text: String = "") {
        for unit in text.utf16 {
            value = value &* 31 &+ Int32(unit)
            factor = factor &* 31
        }
    }

    package mutating func append(_ other: JavaHash) {
        value = value &* other.factor &+ other.value
        factor = factor &* other.factor
    }
}
