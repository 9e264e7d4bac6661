/// How long clients are asked to spread their fetches over, so that the origin is asked no more often than it can take.
package struct HerdWindow: Sendable, Hashable {
    /// Requests per second the origin can take; 0 sets no window.
    package var budget: Int
    package var longest: Duration

    package init(budget: Int, longest: Duration = .seconds(300)) {
        self.budget = budget
        self.longest = longest
    }

    /// In milliseconds, for a message to so many subscribers; 0, "fetch now", also for what takes less than a second.
    package func milliseconds(subscribers: Int, isUrgent: Bool) -> Int {
        guard budget > 0, !isUrgent, subscribers > budget else { return 0 }
        let window = Double(subscribers) / Double(budget) * 1000
        return Int(min(window.rounded(.up), longest / .milliseconds(1)))
    }
}
