package import StalecastWire

/// The current time as HTTP writes it, for example `Sat, 21 Nov 2026 03:00:00 GMT`; rebuilt once a second.
package struct HTTPDate {
    private var second: Int64 = -1
    private var text = ""

    package init() {}

    package mutating func string(now: Timestamp = .now()) -> String {
        // A clock before 1970 is wrong anyway; it must not matter.
        let now = max(now, Timestamp(microseconds: 0))
        let second = now.microseconds / 1_000_000
        if second != self.second {
            self.second = second
            text = Self.format(now, second)
        }
        return text
    }

    private static func format(_ now: Timestamp, _ second: Int64) -> String {
        let iso = now.description
        let day = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][Int(second / 86_400 % 7)]
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        let parts = iso.split { "-T.".contains($0) }
        return "\(day), \(parts[2]) \(months[Int(parts[1])! - 1]) \(parts[0]) \(parts[3]) GMT"
    }
}
