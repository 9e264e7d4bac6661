import StalecastWire

/// A version as written in a condition, for example `2.1.0`: digits and dots, a digit at both ends.
package struct VersionLiteral: Sendable, Hashable {
    package let text: String

    /// Firebase's limit for versions in custom signals.
    package static let maxSignalSegments = 5

    /// nil when `text` is no version.
    package init?(_ text: String) {
        let isDigit = { (byte: UInt8) in (0x30...0x39).contains(byte) }
        guard let first = text.utf8.first, let last = text.utf8.last, isDigit(first), isDigit(last),
            text.utf8.allSatisfy({ isDigit($0) || $0 == UInt8(ascii: ".") })
        else { return nil }
        self.text = text
    }

    /// The parts between the dots; an empty one, as in `1..2`, counts as 0.
    package var segments: [Substring] { text.split(separator: ".", omittingEmptySubsequences: false) }
}

/// A number as written in a condition: a sign, at most 20 digits, and at most 10 decimals.
package struct NumericLiteral: Sendable, Hashable {
    package let text: String
    package let value: Double

    /// nil when `text` is no such number.
    package init?(_ text: String) {
        let unsigned = text.hasPrefix("+") || text.hasPrefix("-") ? text.dropFirst() : text[...]
        let parts = unsigned.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        let decimals = parts.count > 1 ? parts[1] : ""
        guard let whole = parts.first, whole.utf8.count <= 20, decimals.utf8.count <= 10,
            whole.utf8.count + decimals.utf8.count > 0,
            (whole + decimals).utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            // The zeros stand for a missing side, as in `.5` or `5.`.
            let magnitude = Double("0\(whole).\(decimals)0")
        else { return nil }
        self.text = text
        value = text.hasPrefix("-") ? -magnitude : magnitude
    }
}

/// A date and time of day, `yyyy-MM-ddTHH:mm:ss`, with the zone it is meant in.
package struct LocalMoment: Sendable, Hashable {
    /// The date and time as if it were UTC, in seconds since 1970.
    package let secondsAsUTC: Int64
    /// An IANA name such as `Europe/Paris`, only its form checked; nil when none was given.
    package let zone: String?

    /// nil when `text` is no such date, or one that no calendar has.
    package init?(_ text: String, zone: String?) {
        // The language takes one of the forms that RFC 3339 allows, and no leap second.
        let bytes = Array(text.utf8)
        guard bytes.count == 19, bytes[10] == UInt8(ascii: "T"), !text.hasSuffix(":60"),
            let moment = Timestamp("\(text)Z")
        else { return nil }
        secondsAsUTC = moment.microseconds / 1_000_000
        self.zone = zone
    }

    /// True for the form of an IANA zone name: up to three parts of letters, digits, `_`, `+`, `-`, letters first.
    static func isZoneName(_ text: String) -> Bool {
        let parts = text.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        let startsWithLetter = text.utf8.first.map { (0x41...0x5A).contains($0 & 0xDF) } ?? false
        return startsWithLetter && text.utf8.count <= 64 && parts.count <= 3
            && parts.allSatisfy { part in
                !part.isEmpty && part.utf8.allSatisfy { $0.isASCIIAlphanumeric || "_+-".utf8.contains($0) }
            }
    }
}

extension ConditionExpression.PercentTest {
    /// A percentage in millionths of a percent; nil when `text` is not a decimal of 0 to 100 with at most 6 decimals.
    static func micros(_ text: String) -> UInt32? {
        let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        let decimals = parts.count > 1 ? parts[1] : ""
        guard let whole = parts.first, whole.utf8.count <= 20, decimals.utf8.count <= 6,
            whole.utf8.count + decimals.utf8.count > 0
        else { return nil }
        var value: UInt32 = 0
        // The digits with six decimals are a number of millionths of a percent.
        let zeros = repeatElement(UInt8(ascii: "0"), count: 6 - decimals.utf8.count)
        for byte in Array(whole.utf8) + Array(decimals.utf8) + zeros {
            // One more digit behind ten million is above 100 %, or overflows a few digits later.
            guard (0x30...0x39).contains(byte), value <= 10_000_000 else { return nil }
            value = value * 10 + UInt32(byte - 0x30)
        }
        return value <= 100_000_000 ? value : nil
    }
}
