import StalecastRecords

/// Problem that keeps entries of the log from being stored. It is reported when its reason changes. The node tries
/// again after pauses that grow until an entry was stored; answers of the log do not end it.
package struct ApplyStall {
    private var found: (why: String, since: Duration)?
    private var backoff = Backoff()
    private var failures = 0

    /// Failures after which the log is looked at again: an entry that cannot be stored may have been removed.
    private static let lasting = 5

    /// Whether it has failed that often.
    package var isLasting: Bool { failures >= Self.lasting }

    package init() {}

    /// - Returns: whether that is news.
    package mutating func met(_ why: String, now: Duration) -> Bool {
        let isNews = found?.why != why
        found = (why, found?.since ?? now)
        failures += 1
        return isNews
    }

    /// Something was stored, or nothing is to be.
    ///
    /// - Returns: whether there was one.
    package mutating func passed() -> Bool {
        defer { (found, backoff, failures) = (nil, Backoff(), 0) }
        return found != nil
    }

    /// Age of the stall; zero without one.
    package func time(now: Duration) -> Duration { found.map { now - $0.since } ?? .zero }

    /// Time until the next try; nil without a stall.
    package mutating func pause(_ chance: inout some RandomNumberGenerator) -> Duration? {
        found == nil ? nil : backoff.next(&chance)
    }
}
