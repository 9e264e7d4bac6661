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
