/// Whether files are left alone long enough to be read, found out within one look.
struct Settling: Sendable {
    private var seen: FileReading.Inventory?
    private var since = ContinuousClock.now

    /// What was not changed for so long, by the wall clock, is taken to be whole. In nanoseconds.
    private static let restingAge: Int64 = 2_000_000_000
    /// What changed more lately, or in the future, must stay the same for this long.
    private static let quiet = Duration.milliseconds(100)

    /// - Parameter hasWriters: nil when nobody tells.
    mutating func isQuiet(_ inventory: FileReading.Inventory, hasWriters: Bool?) -> Bool {
        if let hasWriters { return !hasWriters }
        if FileReading.wallClock() - inventory.changed > Self.restingAge { return true }
        let now = ContinuousClock.now
        if seen == inventory { return now - since >= Self.quiet }
        seen = inventory
        since = now
        return false
    }
}
