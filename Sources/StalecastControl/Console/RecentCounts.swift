package import StalecastWire

/// Counts of events within a minute, by name: of an address, or of the holder of a credential.
package struct RecentCounts: Sendable {
    /// Names that are remembered; others are not counted.
    private static let mostNames = 1024

    private var counts: [String: (since: Timestamp, count: Int)] = [:]

    package init() {}

    /// - Parameter orIsFull: answer for a new name while no further name can be remembered.
    package mutating func hasRoom(
        for name: String, below most: Int, at now: Timestamp, orIsFull: Bool = false
    ) -> Bool {
        let minuteAgo = now.advanced(by: .seconds(-60))
        // A count of the future was made before the clock was put back: it would stay until that time comes again.
        counts = counts.filter { minuteAgo < $0.value.since && $0.value.since <= now }
        return counts[name].map { $0.count < most } ?? (orIsFull || counts.count < Self.mostNames)
    }

    package mutating func count(_ name: String, at now: Timestamp) {
        guard counts[name] != nil || counts.count < Self.mostNames else { return }
        counts[name, default: (now, 0)].count += 1
    }
}

/// Makes secrets of 256 bits, as 64 hexadecimal digits.
struct SecretMaker: Sendable {
    /// 64 bits that cannot be guessed.
    let random: @Sendable () -> UInt64

    func callAsFunction() -> String {
        (0..<4).map { _ in
            let digits = String(random(), radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined()
    }
}
