import StalecastWire

/// A JSON number as it is written, without rounding: `digits × 10^exponent`.
struct ExactNumber: Sendable, Hashable, Comparable {
    let isNegative: Bool
    /// Values 0 to 9, no zero at either end; none for the number 0.
    let digits: [UInt8]
    let exponent: Int

    /// Larger exponents count as this one.
    private static let maxExponent = 1 << 40
    /// Most digits of a divisor.
    static let maxDivisorDigits = 18

    /// - Parameter text: a number as the JSON parser leaves it.
    init(_ text: String) {
        let parts = text.utf8.split(maxSplits: 1) { $0 | 0x20 == UInt8(ascii: "e") }
        let mantissa = parts[0].split(separator: UInt8(ascii: "."), maxSplits: 1)
        let isDigit = { (byte: UInt8) in (0x30...0x39).contains(byte) }
        let all = mantissa.joined().filter(isDigit).map { $0 - 0x30 }
        let trimmed = all.drop { $0 == 0 }
        let last = trimmed.lastIndex { $0 != 0 }
        digits = last.map { Array(trimmed[...$0]) } ?? []
        isNegative = !digits.isEmpty && text.utf8.first == UInt8(ascii: "-")
        let decimals = mantissa.count > 1 ? mantissa[1].count : 0
        let zeros = last.map { all.endIndex - 1 - $0 } ?? 0
        exponent = digits.isEmpty ? 0 : Self.exponent(parts.count > 1 ? parts[1] : "0"[...].utf8) - decimals + zeros
    }

    private static func exponent(_ text: Substring.UTF8View) -> Int {
        let bound = text.first == UInt8(ascii: "-") ? -maxExponent : maxExponent
        return Int(String(Substring(text))).map { min(max($0, -maxExponent), maxExponent) } ?? bound
    }

    var isInteger: Bool { exponent >= 0 }

    static func < (a: Self, b: Self) -> Bool {
        guard a.isNegative == b.isNegative else { return a.isNegative }
        return a.isNegative ? b.isSmaller(than: a) : a.isSmaller(than: b)
    }

    private func isSmaller(than other: Self) -> Bool {
        guard !digits.isEmpty, !other.digits.isEmpty else { return digits.isEmpty && !other.digits.isEmpty }
        let (size, otherSize) = (digits.count + exponent, other.digits.count + other.exponent)
        return size == otherSize ? digits.lexicographicallyPrecedes(other.digits) : size < otherSize
    }

    /// Whether a division leaves nothing.
    ///
    /// - Parameter divisor: greater than 0, with at most ``maxDivisorDigits`` digits.
    func isMultiple(of divisor: Self) -> Bool {
        if digits.isEmpty { return true }
        // The last digit is not 0: a divisor of a higher power of ten leaves it.
        guard exponent >= divisor.exponent else { return false }
        let modulus = divisor.digits.reduce(UInt64(0)) { $0 * 10 + UInt64($1) }
        let multiply = { (a: UInt64, b: UInt64) in
            let product = a.multipliedFullWidth(by: b)
            return modulus.dividingFullWidth((product.high % modulus, product.low)).remainder
        }
        var remainder = digits.reduce(UInt64(0)) { (multiply($0, 10) + UInt64($1)) % modulus }
        var (power, factor) = (exponent - divisor.exponent, 10 % modulus)
        while power > 0 {
            if power & 1 == 1 { remainder = multiply(remainder, factor) }
            factor = multiply(factor, factor)
            power >>= 1
        }
        return remainder == 0
    }
}

extension JSONValue {
    /// Bytes that are the same for values that JSON Schema calls equal: numbers by value, members in any order, texts by
    /// their bytes.
    var canonicalBytes: [UInt8] {
        var bytes: [UInt8] = []
        writeCanonically(to: &bytes)
        return bytes
    }

    private func writeCanonically(to bytes: inout [UInt8]) {
        switch self {
        case .null: bytes.append(UInt8(ascii: "n"))
        case .bool(let flag): bytes.append(UInt8(ascii: flag ? "t" : "f"))
        case .number(let text):
            let number = ExactNumber(text)
            if number.isNegative { bytes.append(UInt8(ascii: "-")) }
            bytes += number.digits.map { $0 + 0x30 }
            bytes += Array("e\(number.exponent);".utf8)
        case .string(let text): Self.write(text, to: &bytes)
        case .array(let elements):
            bytes.append(UInt8(ascii: "["))
            for element in elements { element.writeCanonically(to: &bytes) }
            bytes.append(UInt8(ascii: "]"))
        case .object(let object):
            bytes.append(UInt8(ascii: "{"))
            // Bytes are compared: `<` of String takes different spellings of one character for equal.
            let sorted = object.members.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
            for (key, value) in sorted {
                Self.write(key, to: &bytes)
                value.writeCanonically(to: &bytes)
            }
            bytes.append(UInt8(ascii: "}"))
        }
    }

    /// The length first, so that no text can look like the end of itself.
    private static func write(_ text: String, to bytes: inout [UInt8]) {
        bytes += Array("\(text.utf8.count)\"".utf8)
        bytes += Array(text.utf8)
    }
}
