package import StalecastWire

/// Shares of clients in basis points: 10,000 are 100 %.
package enum Percentage {
    package static let whole = 10_000

    /// Reads `"0.5%"` or the number 0.5, which is in percent as well; nil outside 0 to 100 and for more than two decimals.
    package static func basisPoints(_ json: JSONValue) -> Int? {
        switch json {
        case .number(let text): return basisPoints(Double(text))
        case .string(let text):
            // Double reads hexadecimal numbers, signs and exponents too.
            guard text.utf8.count <= 12, text.utf8.last == 0x25 else { return nil }
            let digits = text.dropLast()
            guard digits.utf8.allSatisfy({ (0x30...0x39).contains($0) || $0 == 0x2E }) else { return nil }
            return basisPoints(Double(digits))
        default: return nil
        }
    }

    private static func basisPoints(_ percent: Double?) -> Int? {
        guard let percent, (0...100).contains(percent) else { return nil }
        let points = (percent * 100).rounded()
        // 0.29 × 100 is not 29 in binary.
        return abs(percent * 100 - points) < 1e-6 ? Int(points) : nil
    }

    /// Number of percent, such as 0.5.
    package static func json(_ points: Int) -> JSONValue { .double(Double(points) / 100) }

    /// Text such as `0.5%`.
    package static func text(_ points: Int) -> String {
        points % 100 == 0 ? "\(points / 100)%" : "\(Double(points) / 100)%"
    }
}
