/// Computes the time over which clients spread their fetches, so that the origin is asked no more often than it can
/// take.
package struct HerdWindow: Sendable, Hashable {
    /// Requests per second the origin can take; 0 sets no window.
    package var budget: Int
    /// Limits between which experience moves the budget; the default is from a tenth of it to the whole.
    package var budgets: ClosedRange<Int>
    package var longest: Duration

    package init(budget: Int, least: Int? = nil, most: Int? = nil, longest: Duration = .seconds(300)) {
        self.budget = budget
        let least = max(1, min(least ?? budget / 10, budget))
        budgets = least...max(least, budget, most ?? 0)
        self.longest = longest
    }

    /// Window in milliseconds, for a message to so many subscribers; 0, "fetch now", also for what takes less than a
    /// second.
    ///
    /// - Parameter experience: what the versions before taught; without it one fetch of each and the budget as it is.
    package func milliseconds(
        subscribers: Int, isUrgent: Bool, experience: HerdExperience = HerdExperience()
    ) -> Int {
        guard budget > 0, !isUrgent, subscribers > 0 else { return 0 }
        let plain = milliseconds(fetches: Double(subscribers), budget: budget)
        let learned = milliseconds(
            fetches: Double(subscribers) * (experience.fetchesPerStream ?? 1), budget: experience.budget(of: self))
        // Fetches at the origin are not seen here: few fetches prove no small herd.
        return experience.fetches >= subscribers ? learned : max(plain, learned)
    }

    private func milliseconds(fetches: Double, budget: Int) -> Int {
        guard fetches > Double(budget) else { return 0 }
        return Int(min((fetches / Double(budget) * 1000).rounded(.up), longest / .milliseconds(1)))
    }
}
