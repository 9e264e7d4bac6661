import Foundation
import StalecastWire
import Synchronization

/// IANA zones by name; asking Foundation for one is slow, and devices name the same few.
enum ZoneTable {
    /// Names kept; a stranger who sends made-up ones must not fill the memory.
    private static let capacity = 1024
    private static let zones = Mutex<[String: TimeZone?]>([:])

    /// nil when there is no such zone.
    static func zone(_ name: String) -> TimeZone? {
        if let known = zones.withLock({ $0[name] }) { return known }
        let zone = LocalMoment.isZoneName(name) ? TimeZone(identifier: name) : nil
        zones.withLock { if $0.count < capacity { $0[name] = .some(zone) } }
        return zone
    }
}

extension LocalMoment {
    /// The date and time as if it were UTC, in seconds since 1970.
    var secondsAsUTC: Int64 {
        let shifted = month <= 2 ? year - 1 : year
        let leapDays = shifted / 4 - shifted / 100 + shifted / 400
        // Years begin in March here, so that a leap day is their last. Five months have 153 days.
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        // 719,468 days lie between 1 March of year 0 and 1970.
        let days = shifted * 365 + leapDays + dayOfYear - 719_468
        return Int64(days) * 86_400 + Int64(hour * 3600 + minute * 60 + second)
    }

    /// Instant at which this moment is in `zone`. A time that comes twice is the first of the two; one that a change of
    /// clocks leaves out is read with the offset before the change (as in RFC 5545 and PEP 495).
    func instant(in zone: TimeZone) -> Timestamp {
        let local = secondsAsUTC
        let offset = { (seconds: Int64) in
            Int64(zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(seconds))))
        }
        // A day to either side is beyond any change of clocks: two offsets that differ have one between them.
        let before = offset(local - 86_400)
        let after = offset(local + 86_400)
        // The moment lies after the change if only the later offset agrees with itself there.
        let isAfterChange = before != after && offset(local - before) != before && offset(local - after) == after
        return Timestamp(microseconds: (local - (isAfterChange ? after : before)) * 1_000_000)
    }
}
