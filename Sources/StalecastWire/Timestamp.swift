#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A moment in UTC, whole microseconds since 1970. Written with exactly six fractional digits and `Z`, because
/// Firebase's Python functions refuse any other fraction; read with 0 to 9 digits and any RFC 3339 offset.
package struct Timestamp: Hashable, Sendable, Comparable, CustomStringConvertible {
    package let microseconds: Int64

    package init(microseconds: Int64) { self.microseconds = microseconds }

    /// The wall clock's time now.
    package static func now() -> Timestamp {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Timestamp(microseconds: Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1000)
    }

    package static func < (a: Self, b: Self) -> Bool { a.microseconds < b.microseconds }

    package var description: String {
        let seconds = microseconds.floorDivided(by: 1_000_000)
        let day = seconds.floorDivided(by: 86_400)
        let second = Int(seconds - day * 86_400)
        let (year, month, dayOfMonth) = Self.civil(fromDay: day)
        let fraction = Int((microseconds % 1_000_000 + 1_000_000) % 1_000_000)
        var text: [UInt8] = []
        text.reserveCapacity(27)
        for (value, width, end) in [
            (year, 4, "-"), (month, 2, "-"), (dayOfMonth, 2, "T"), (second / 3600, 2, ":"), (second / 60 % 60, 2, ":"),
            (second % 60, 2, "."), (fraction, 6, "Z"),
        ] as [(Int, Int, Unicode.Scalar)] {
            Self.append(value, width, to: &text)
            text.append(UInt8(ascii: end))
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Parses RFC 3339, for example `2026-11-20T13:00:00.5+01:00`; nil when it is anything else.
    package init?(_ text: String) {
        var scanner = Scanner(bytes: Array(text.utf8))
        guard let year = scanner.number(4), scanner.skip("-"), let month = scanner.number(2), scanner.skip("-"),
            let day = scanner.number(2), scanner.skip("T", or: "t") || scanner.skip(" "),
            let hour = scanner.number(2), scanner.skip(":"), let minute = scanner.number(2), scanner.skip(":"),
            let second = scanner.number(2), (1...12).contains(month), (1...31).contains(day), hour < 24, minute < 60,
            second <= 60, let micros = scanner.fraction(), let offset = scanner.offsetMinutes(), scanner.isAtEnd
        else { return nil }
        let days = Self.day(year: year, month: month, day: day)
        // 30 February comes back as another date.
        guard Self.civil(fromDay: days) == (year, month, day) else { return nil }
        let seconds = days * 86_400 + Int64(hour * 3600 + minute * 60 + second - offset * 60)
        self.init(microseconds: seconds * 1_000_000 + Int64(micros))
    }

    /// Days since 1970-01-01 of a proleptic Gregorian date; years counted from March so that leap days come last.
    private static func day(year: Int, month: Int, day: Int) -> Int64 {
        let shifted = Int64(month <= 2 ? year - 1 : year)
        let era = shifted.floorDivided(by: 400)
        let yearOfEra = shifted - era * 400
        let dayOfYear = Int64((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1)
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    }

    private static func civil(fromDay day: Int64) -> (year: Int, month: Int, day: Int) {
        let shifted = day + 719_468
        let era = shifted.floorDivided(by: 146_097)
        let dayOfEra = shifted - era * 146_097
        // 1,460 days are four years without their leap day, 36,524 a century, 146,096 four centuries without theirs.
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        let month = Int(monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9)
        let year = Int(yearOfEra + era * 400) + (month <= 2 ? 1 : 0)
        return (year, month, Int(dayOfYear - (153 * monthFromMarch + 2) / 5 + 1))
    }

    private static func append(_ value: Int, _ width: Int, to text: inout [UInt8]) {
        var divisor = 1
        for _ in 1..<width { divisor *= 10 }
        // A year before the first, or of five digits.
        guard (0..<10 * divisor).contains(value) else {
            let digits = String(value)
            return text += (String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits).utf8
        }
        while divisor > 0 {
            text.append(UInt8(ascii: "0") + UInt8(value / divisor % 10))
            divisor /= 10
        }
    }
}

extension Timestamp {
    private struct Scanner {
        let bytes: [UInt8]
        var index = 0

        var isAtEnd: Bool { index == bytes.count }

        mutating func skip(_ letter: Unicode.Scalar, or other: Unicode.Scalar? = nil) -> Bool {
            guard index < bytes.count else { return false }
            let byte = UInt32(bytes[index])
            guard byte == letter.value || byte == other?.value else { return false }
            index += 1
            return true
        }

        mutating func number(_ width: Int) -> Int? {
            guard index + width <= bytes.count else { return nil }
            var value = 0
            for byte in bytes[index..<index + width] {
                guard (0x30...0x39).contains(byte) else { return nil }
                value = value * 10 + Int(byte - 0x30)
            }
            index += width
            return value
        }

        mutating func fraction() -> Int? {
            guard skip(".") else { return 0 }
            var micros = 0
            var digits = 0
            // Nanoseconds are read, and cut to microseconds.
            while index < bytes.count, (0x30...0x39).contains(bytes[index]), digits < 9 {
                if digits < 6 { micros = micros * 10 + Int(bytes[index] - 0x30) }
                digits += 1
                index += 1
            }
            guard digits > 0 else { return nil }
            for _ in min(digits, 6)..<6 { micros *= 10 }
            return micros
        }

        mutating func offsetMinutes() -> Int? {
            if skip("Z", or: "z") { return 0 }
            let sign = skip("+") ? 1 : skip("-") ? -1 : 0
            guard sign != 0, let hours = number(2), skip(":"), let minutes = number(2), hours < 24, minutes < 60
            else { return nil }
            return sign * (hours * 60 + minutes)
        }
    }
}

extension Int64 {
    fileprivate func floorDivided(by divisor: Int64) -> Int64 {
        let quotient = self / divisor
        return self % divisor < 0 ? quotient - 1 : quotient
    }
}
