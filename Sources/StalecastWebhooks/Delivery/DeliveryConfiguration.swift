package struct DeliveryConfiguration: Sendable {
    /// Path of `deliveries.sqlite`.
    package var path: String
    /// Attempts under way at once, those that already take long not counted. Default 512.
    package var maxInFlight: Int
    /// Continuous failure after which a webhook is disabled. Default 5 days.
    package var disableAfter: Duration
    /// Time that attempts are kept. Default 14 days.
    package var attemptRetention: Duration
    /// Time that dead letters are kept. Default 30 days.
    package var deadLetterRetention: Duration
    package var pace: DeliveryConfiguration.Pace

    package init(
        path: String, maxInFlight: Int = 512, disableAfter: Duration = .seconds(5 * 86_400),
        attemptRetention: Duration = .seconds(14 * 86_400), deadLetterRetention: Duration = .seconds(30 * 86_400),
        pace: DeliveryConfiguration.Pace = DeliveryConfiguration.Pace()
    ) {
        self.path = path
        self.maxInFlight = maxInFlight
        self.disableAfter = disableAfter
        self.attemptRetention = attemptRetention
        self.deadLetterRetention = deadLetterRetention
        self.pace = pace
    }
}

extension DeliveryConfiguration {
    /// The waits of delivery; the defaults are the documented ones, tests shorten them.
    package struct Pace: Sendable {
        package var floor = Duration.milliseconds(250)
        /// Mode `latest`: the first backoff, doubled with every failure up to `cap`.
        package var base = Duration.seconds(1)
        package var cap = Duration.seconds(600)
        /// Modes `all` and `fifo`: the same for one version.
        package var versionBase = Duration.seconds(5)
        package var versionCap = Duration.seconds(6 * 3600)
        /// Modes `all` and `fifo`: how long one version is tried, Standard Webhooks' schedule.
        package var versionWindow = Duration.seconds(3 * 86_400)
        /// Shortest wait after 429, 502 and 504 without `Retry-After`.
        package var throttleFloor = Duration.seconds(30)
        package var longestRetryAfter = Duration.seconds(3600)
        /// Shortest wait after a refusal by the address guard or of a certificate, which time alone seldom heals.
        package var slowFloor = Duration.seconds(900)
        /// Two answers 410 this far apart disable a webhook; one may be a bad deployment.
        package var goneAfter = Duration.seconds(60)
        /// A newer version may be tried this long after the last attempt although the backoff is longer.
        package var probeAfter = Duration.seconds(30)
        /// An attempt that takes longer gives its place to others.
        package var slowAfter = Duration.seconds(1)
        /// Longest time over which deliveries that are due at start are spread.
        package var startSpread = Duration.seconds(5)

        package init() {}
    }
}
