import ArgumentParser
import StalecastWire

/// A length of time on the command line: `300ms`, `25s`, `10m`, `2h`, `7d`, or a plain number of seconds. At most
/// 10,000 days, so that all that is computed from it fits.
package struct Span: ExpressibleByArgument, Sendable {
    package let duration: Duration

    /// Longest first where one suffix ends like another.
    private static let units: [(suffix: String, milliseconds: Double)] = [
        ("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("", 1000),
    ]
    private static let longestMilliseconds: Double = 10_000 * 86_400_000

    init(_ duration: Duration) { self.duration = duration }

    package init?(argument: String) {
        guard let unit = Self.units.first(where: { argument.hasSuffix($0.suffix) }) else { return nil }
        let number = argument.dropLast(unit.suffix.count)
        guard number.utf8.allSatisfy({ (0x30...0x39).contains($0) || $0 == UInt8(ascii: ".") }),
            let count = Double(number), count * unit.milliseconds <= Self.longestMilliseconds
        else { return nil }
        duration = .milliseconds(Int64(count * unit.milliseconds))
    }

    var seconds: Double { duration / .seconds(1) }
    /// Milliseconds with their unit, as Control's API takes them.
    var inMilliseconds: String { "\(Int64(duration / .milliseconds(1)))ms" }
    var nanoseconds: UInt64 { UInt64(duration / .nanoseconds(1)) }

    package var defaultValueDescription: String {
        let milliseconds = Int64(duration / .milliseconds(1))
        if milliseconds % 1000 != 0 { return "\(milliseconds)ms" }
        return milliseconds > 0 && milliseconds % 86_400_000 == 0
            ? "\(milliseconds / 86_400_000)d" : "\(milliseconds / 1000)s"
    }
}

/// A time in the future, spelled as one or as how long until then.
struct FutureTime: ExpressibleByArgument, Sendable {
    let time: Timestamp

    init?(argument: String) {
        let span = Span(argument: argument)?.duration
        guard let time = Timestamp(argument) ?? span.map({ .now().advanced(by: $0) }) else { return nil }
        self.time = time
    }
}

/// A time in the past, spelled as one or as how long ago.
struct PastTime: ExpressibleByArgument, Sendable {
    let time: Timestamp

    init?(argument: String) {
        let span = Span(argument: argument)?.duration
        guard let time = Timestamp(argument) ?? span.map({ .now().advanced(by: .zero - $0) }) else { return nil }
        self.time = time
    }
}
