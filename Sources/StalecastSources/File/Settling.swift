/// Whether files are left alone long enough to be read, found out within one look.
///
/// One file is whole as soon as nobody writes to it. Of a directory nobody says which of its files belong together, so
/// that a checkout or a save that moves the old file away first becomes one version only when it is waited for.
struct Settling: Sendable {
    /// What must have stayed the same for so long: a directory, and a file that changed lately when nobody tells of
    /// writers.
    let quiet: Duration
    private var seen: FileReading.Inventory?
    private var since = ContinuousClock.now

    /// What events tell.
    struct Heard: Sendable {
        let hasWriters: Bool
        let lastEvent: ContinuousClock.Instant?
    }

    /// What was not changed for so long, by the wall clock, is taken to be whole.
    private static let restingAge = Duration.seconds(2)
    /// A directory in which something happens all the time is read all the same after this.
    private static let longestUnrest = Duration.seconds(2)
    /// A file that is written to all the time is read all the same after this.
    private static let longestWrite = Duration.seconds(5)

    init(quiet: Duration) { self.quiet = quiet }

    /// - Parameters:
    ///   - heard: nil when nobody tells.
    ///   - waited: since the look began.
    mutating func isQuiet(_ inventory: FileReading.Inventory, _ heard: Heard?, waited: Duration) -> Bool {
        if waited > Self.longestWrite { return true }
        guard let heard else { return isOld(inventory) || hasStayed(inventory) }
        if heard.hasWriters { return false }
        guard inventory.isDirectory, waited <= Self.longestUnrest else { return true }
        let isSilent = heard.lastEvent.map { .now - $0 >= quiet } ?? true
        return hasStayed(inventory) && isSilent
    }

    /// Of a directory it does not show when a file went away.
    private func isOld(_ inventory: FileReading.Inventory) -> Bool {
        !inventory.isDirectory && inventory.age > Self.restingAge
    }

    private mutating func hasStayed(_ inventory: FileReading.Inventory) -> Bool {
        let now = ContinuousClock.now
        if seen == inventory { return now - since >= quiet }
        seen = inventory
        since = now
        return false
    }
}
