// The file's name comes after Timestamp.swift's on purpose. In a whole-module build the compiler (6.3) that reads an
// extension of Duration first takes the members of `timespec` for another module's, and refuses them in
// Timestamp.swift.

extension Duration {
    /// Units of the configuration, in milliseconds, largest first.
    private static let units: [(name: String, milliseconds: Int64)] = [
        ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1),
    ]

    /// Reads a whole number directly followed by its unit: `500ms`, `25s`, `10m`, `2h`, `90d`. A bare number is
    /// refused, even 0, so that no reader has to guess its unit.
    package init(spelled text: String) throws(InvalidValue) {
        guard let (number, unit) = numberAndUnit(text), let size = Self.units.first(where: { $0.name == unit }) else {
            let right = "write a whole number and its unit ms, s, m, h or d, such as 25s"
            throw InvalidValue("\"\(text)\" is no duration; \(right)")
        }
        let (milliseconds, overflow) = number.multipliedReportingOverflow(by: size.milliseconds)
        if overflow { throw InvalidValue("\"\(text)\" is longer than any duration") }
        self = .milliseconds(milliseconds)
    }

    /// The shortest text `init(spelled:)` reads back as this duration, whole milliseconds assumed.
    package var spelled: String {
        let milliseconds = components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000
        let fitting = Self.units.first { milliseconds != 0 && milliseconds % $0.milliseconds == 0 }
        guard let fitting else { return "0s" }
        return "\(milliseconds / fitting.milliseconds)\(fitting.name)"
    }
}

/// Splits `25s` into 25 and `s`; nil unless it begins with digits that fit.
package func numberAndUnit(_ text: String) -> (number: Int64, unit: String)? {
    let digits = text.utf8.prefix { (0x30...0x39).contains($0) }
    guard let number = Int64(String(decoding: digits, as: UTF8.self)) else { return nil }
    return (number, String(decoding: text.utf8.dropFirst(digits.count), as: UTF8.self))
}

/// Sizes as the configuration spells them: a whole number directly followed by B, KiB, MiB, GiB or TiB (powers of
/// 1024).
package enum ByteCount {
    private static let units: [(name: String, bytes: Int64)] = [
        ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1),
    ]

    /// Reads `8MiB` to bytes. A bare number is refused, and so are kB and MB, which may mean 1000 or 1024.
    package static func bytes(spelled text: String) throws(InvalidValue) -> Int {
        guard let (number, unit) = numberAndUnit(text), let size = units.first(where: { $0.name == unit }) else {
            let right = "write a whole number and its unit B, KiB, MiB, GiB or TiB, such as 8MiB"
            throw InvalidValue("\"\(text)\" is no size; \(right)")
        }
        let (bytes, overflow) = number.multipliedReportingOverflow(by: size.bytes)
        if !overflow, let count = Int(exactly: bytes) { return count }
        throw InvalidValue("\"\(text)\" is larger than any size")
    }

    /// The shortest text `bytes(spelled:)` reads back as `bytes`.
    package static func spelled(_ bytes: Int) -> String {
        let fitting = units.first { bytes != 0 && Int64(bytes) % $0.bytes == 0 }
        guard let fitting else { return "0B" }
        return "\(Int64(bytes) / fitting.bytes)\(fitting.name)"
    }
}

/// Reason why one value's text was refused; `description` is a sentence without the value's name, for the operator.
package struct InvalidValue: Error, Equatable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}
