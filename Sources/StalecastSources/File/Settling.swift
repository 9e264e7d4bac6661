/// Whether files are left alone long enough to be read, found out within one look.
///
/// One file is whole as soon as no process writes to it. No event says which of its files belong together, so
/// that a checkout or a save that moves the old file away first becomes one version only when it is waited for.
struct Settling: Sendable {
    /// Time for which files must have stayed the same: a directory, and a file that changed lately while no events tell
    /// of writers.
    let quiet: Duration
    private var seen: FileReading.Inventory?
    private var since = ContinuousClock.now

    /// Events about files.
    struct Heard: Sendable {
        let hasWriters: Bool
        let lastEvent: ContinuousClock.Instant?
    }

    /// Age by the wall clock from which an unchanged file counts as whole.
    private static let restingAge = Duration.seconds(2)
    /// Time after which a directory is read although files in it still change.
    private static let longestUnrest = Duration.seconds(2)
    /// Time after which a file is read even if it is still being written.
    private static let longestWrite = Duration.seconds(5)

    init(quiet: Duration) { self.quiet = quiet }

    /// - Parameters:
    ///   - heard: nil without events.
    ///   - waited: since the look began.
    mutating func isQuiet(_ inventory: FileReading.Inventory, _ heard: Heard?, waited: Duration) -> Bool {
        // A writer that never closes its file must not hold back a version for ever.
        if waited > Self.longestWrite { return true }
        guard let heard else { return isOld(inventory) || hasStayed(inventory) }
        if heard.hasWriters { return false }
        guard inventory.isDirectory, waited <= Self.longestUnrest else { return true }
        let isSilent = heard.lastEvent.map { .now - $0 >= quiet } ?? true
        return hasStayed(inventory) && isSilent
    }

    /// True when nothing changed lately; a directory does not show when a file went away.
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

/// The files that are being written to, as far as events tell.
struct OpenWriters: Sendable {
    /// Times of the last write, by directory and name.
    private var written: [String: ContinuousClock.Instant] = [:]

    /// Seconds without a write after which an open file counts as complete. In seconds.
    static let patience = 2.0

    /// - Parameter isRead: whether the file has a part in the template.
    /// - Returns: true when a file is written to that was not.
    mutating func hear(_ event: FileWatch.Event, isRead: Bool) -> Bool {
        let name = "\(event.directory)/\(event.name)"
        guard event.isUnfinished, isRead else {
            written[name] = nil
            return false
        }
        return written.updateValue(.now, forKey: name) == nil
    }

    var areOpen: Bool {
        let now = ContinuousClock.now
        return written.values.contains { now - $0 < .seconds(Self.patience) }
    }
}
