/// Sizes as the configuration spells them: a whole number directly followed by B, KiB, MiB, GiB or TiB (powers of 1024).
package enum ByteCount {
    private static let units: [(name: String, bytes: Int64)] = [
        ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1),
    ]

    /// Reads `8MiB` to bytes. A bare number is refused, and so are kB and MB, of which nobody knows whether 1000 or 1024
    /// is meant.
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
