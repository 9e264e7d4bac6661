import StalecastOutbound

/// Decides when a source is looked at again.
package struct PollSchedule: Sendable, Hashable {
    /// Time between two looks while all is well. Default 30 s.
    package var interval: Duration
    /// Share of the interval that is added or taken away at random, so that many scopes do not look in step. Default
    /// 0.1.
    package var jitter: Double
    /// The longest pause between two looks that fail. Default 5 min; never shorter than the interval.
    package var longestPause: Duration
    /// The longest pause while changes are heard of otherwise, but never shorter than the interval: who promises how
    /// old the last good look may be needs looks before that. Default nil, no limit.
    package var longestTrust: Duration?

    /// Two looks are at least this far apart, whatever triggers them.
    static let shortestPause = Duration.milliseconds(20)
    /// No origin can ask to be left alone for longer.
    static let longestRetryAfter = Duration.seconds(3600)
    /// The longest pause after one failure.
    static let firstRetry = Duration.seconds(5)
    /// Number of early looks for a version that was promised, before the interval takes over: 10 s in all.
    static let promisedPolls = 8

    package init(
        interval: Duration = .seconds(30), jitter: Double = 0.1, longestPause: Duration = .seconds(300),
        longestTrust: Duration? = nil
    ) {
        self.interval = interval
        self.jitter = jitter
        self.longestPause = max(longestPause, interval)
        self.longestTrust = longestTrust
    }

    /// - Parameters:
    ///   - hears: whether events report changes; polls are a safety net then, and ten times rarer.
    ///   - random: 0 to 1.
    package func pause(hears: Bool, random: Double) -> Duration {
        let seldom = max(interval, min(interval * 10, longestTrust ?? interval * 10))
        return (hears ? seldom : interval) * (1 - jitter + 2 * jitter * random)
    }

    /// Pause after so many failed polls in a row. It begins with the interval, but at least half a second and at most
    /// ``firstRetry``; each failure doubles it, and a random half to the whole of that is taken. A triggered poll that
    /// failed is repeated soon in this way, even where polls are rare.
    package func pause(failures: Int, retryAfter: Duration?, random: Double) -> Duration {
        let base = min(max(interval, .milliseconds(500)), Self.firstRetry)
        let whole = base.doubled(afterFailures: failures, atMost: longestPause)
        return max(whole * (0.5 + 0.5 * random), min(retryAfter ?? .zero, Self.longestRetryAfter))
    }

    /// Pause after so many failed looks in a row, of which the last found this problem.
    package func pause(failures: Int, after problem: OriginProblem, random: Double) -> Duration {
        guard problem.isSoonOver, let first = problem.retryAfter else {
            return pause(failures: failures, retryAfter: problem.retryAfter, random: random)
        }
        return min(first, interval).doubled(afterFailures: failures, atMost: longestPause)
    }

    /// Pause before a promised version is looked for once more: 50 ms, doubled up to 2.5 s; nil when that is given up.
    package func pause(promisedPolls polls: Int) -> Duration? {
        polls < Self.promisedPolls ? min(.milliseconds(50 << polls), .milliseconds(2500)) : nil
    }
}
