/// Evidence that told clients go away more often than the others do: a betting e-process on the shares that addresses
/// lost.
///  The claim that it bets against: the mean share of told addresses is at most that of untold ones in the same
/// minutes, plus a margin. While the claim holds, ``value`` ever reaches 1,000 in at most one release of 1,000: at
/// every look, and for any distribution of shares (Ville's inequality; Waudby-Smith and Ramdas, "Estimating means of
/// bounded random variables by betting"). Each round starts a bet of its own beside those that go on, with the weight 1
/// / (j (j + 1)): harm that begins late is not set off against the quiet before, and harm over several rounds adds up.
package struct LossEvidence: Sendable {
    /// ``value`` at which the claim is given up: the reciprocal of the probability of a false alarm.
    package static let threshold = 1000.0
    /// Shares of its worth that each bet puts at stake: a cautious, an even and a bold one.
    private static let stakes = SIMD3(0.1, 0.3, 0.6)

    /// Excess of the mean share that is allowed, 0 to 1.
    private let margin: Double
    private var rounds = 0.0
    /// Upper estimate of a told address's mean share in this round, if the version is harmless.
    private var bound = 1.0
    private var bets = SIMD3<Double>.zero

    package init(margin: Double) { self.margin = margin }

    /// Odds against the claim.
    package var value: Double { bets.sum() / 3 }

    /// Starts a round.
    ///
    /// - Parameter untold: shares of the untold addresses in the round; at least one.
    package mutating func begin(_ untold: LossSample) {
        rounds += 1
        // Three standard errors, and the rule of three for a small sample that happens to have no loss.
        bound = min(1, untold.mean + 3 * untold.standardError + 3 / Double(untold.count) + margin)
        bets += SIMD3(repeating: 1 / (rounds * (rounds + 1)))
    }

    /// Takes the share of one told address, 0 to 1. The order of addresses must not depend on their shares.
    ///
    /// - Returns: true when the claim is given up.
    package mutating func add(_ share: Double) -> Bool {
        bets *= 1 + Self.stakes * (share / bound - 1)
        return value >= Self.threshold
    }

    /// Bets from nothing again.
    package mutating func forget() { bets = .zero }
}

/// Mean of shares, and how sure it is.
package struct LossSample: Sendable {
    package private(set) var count = 0
    private var sum = 0.0
    private var squares = 0.0

    package init() {}

    package mutating func add(_ share: Double) {
        count += 1
        sum += share
        squares += share * share
    }

    package var mean: Double { count == 0 ? 0 : sum / Double(count) }

    package var standardError: Double {
        guard count > 0 else { return 0 }
        let number = Double(count)
        return (max(0, squares / number - mean * mean) / number).squareRoot()
    }
}
