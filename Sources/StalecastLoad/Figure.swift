import Foundation

/// Measured figures as text; `–` for what could not be measured.
package enum Figure {
    package static let none = "–"

    package static func milliseconds(_ value: Double?) -> String { fixed(value, 2) }
    package static func microseconds(_ value: Double?) -> String { fixed(value, 2) }
    package static func perSecond(_ value: Double?) -> String { fixed(value, 0) }

    package static func fixed(_ value: Double?, _ decimals: Int) -> String {
        value.map { String(format: "%.\(decimals)f", $0) } ?? none
    }

    /// Bytes as kB (1,024 bytes) with two decimals.
    package static func kilobytes(_ bytes: Double?) -> String { fixed(bytes.map { $0 / 1024 }, 2) }

    /// Bytes as MiB.
    package static func mebibytes(_ bytes: Int?) -> String { fixed(bytes.map { Double($0) / 1_048_576 }, 1) }
}
