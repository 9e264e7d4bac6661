/// Hash of its content that the ETag of a fetch carries. Java's hash alone is Firebase's form, but two short values
/// often have one: the client that went from one to the other was told `NO_CHANGE`. Both follow for two texts together
/// from theirs.
package struct ContentHash: Sendable {
    private var java: JavaHash
    private var polynomial: PolynomialHash

    package init(_ text: String) {
        java = JavaHash(text)
        polynomial = PolynomialHash(text)
    }

    package mutating func append(_ other: ContentHash) {
        java.append(other.java)
        polynomial.append(other.polynomial)
    }

    /// `<Java's>-<16 hexadecimal digits>`.
    package var text: String {
        let digits = String(polynomial.value, radix: 16)
        return "\(java.value)-" + String(repeating: "0", count: 16 - digits.count) + digits
    }
}

/// A text's bytes as the digits of a number in a large base, modulo 2^61 − 1. Every program has the same base, so that
/// the nodes of a cluster agree. Two different texts of `n` bytes have one value for at most `n` of the 2^61 bases.
struct PolynomialHash: Sendable {
    private static let prime: UInt64 = (1 << 61) - 1
    /// Digits of π.
    private static let base: UInt64 = 0x043F_6A88_85A3_08D3
    private(set) var value: UInt64 = 0
    /// The base to the count of bytes.
    private var factor: UInt64 = 1

    init(_ text: String) {
        for byte in text.utf8 {
            // The start is not zero: a text that begins with NUL is another one.
            value = Self.reduced(Self.product(value, Self.base) + UInt64(byte) + 1)
            factor = Self.product(factor, Self.base)
        }
    }

    mutating func append(_ other: PolynomialHash) {
        value = Self.reduced(Self.product(value, other.factor) + other.value)
        factor = Self.product(factor, other.factor)
    }

    private static func product(_ a: UInt64, _ b: UInt64) -> UInt64 {
        let (high, low) = a.multipliedFullWidth(by: b)
        // 2^61 is 1 modulo the prime: the bits above 61 are added to those below.
        return reduced((low & prime) + (high << 3 | low >> 61))
    }

    /// Below twice the prime and a little.
    private static func reduced(_ sum: UInt64) -> UInt64 { sum >= prime ? sum - prime : sum }
}

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
