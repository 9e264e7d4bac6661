import Foundation
import StalecastWire

/// Times as people read them: in the zone of TZ, or in UTC, always with the zone's name.
package struct LocalClock: Sendable {
    private let isUTC: Bool

    package init(isUTC: Bool = false) { self.isUTC = isUTC }

    /// Clock that `--utc` asks for. It reads the arguments itself: times are written in many places.
    static let asked = LocalClock(isUTC: CommandLine.arguments.prefix { $0 != "--" }.contains("--utc"))

    /// `13:00:00.123 CET`.
    func time(_ time: Timestamp) -> String {
        let (parts, zone) = parts(time)
        let millis = ((time.microseconds % 1_000_000) + 1_000_000) % 1_000_000 / 1000
        return String(format: "%02d:%02d:%02d.%03d ", parts.tm_hour, parts.tm_min, parts.tm_sec, Int(millis)) + zone
    }

    /// `2026-11-20 13:00:00 CET`.
    func date(_ time: Timestamp) -> String {
        let (parts, zone) = parts(time)
        return String(
            format: "%04d-%02d-%02d %02d:%02d:%02d ", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
            parts.tm_hour, parts.tm_min, parts.tm_sec) + zone
    }

    private func parts(_ time: Timestamp) -> (tm, zone: String) {
        var seconds = time_t((Double(time.microseconds) / 1e6).rounded(.down))
        var parts = tm()
        if isUTC { gmtime_r(&seconds, &parts) } else { localtime_r(&seconds, &parts) }
        return (parts, isUTC ? "UTC" : parts.tm_zone.map { String(cString: $0) } ?? "")
    }
}
