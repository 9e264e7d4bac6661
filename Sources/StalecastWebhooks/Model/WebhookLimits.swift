/// Limits of the rate and the time of one webhook's requests.
package struct WebhookLimits: Sendable, Hashable {
    /// Attempts per second at most, 0.001 to 1,000; nil is no limit, the default.
    package var maxPerSecond: Double?
    /// Limit of one attempt, from name look-up to the end of the answer. Default 15 s, 1 s to 60 s.
    package var timeout: Duration
    /// Least time between the starts of two deliveries of one scope, 0 (the default) to 1 day. Versions in between are
    /// folded.
    package var minInterval: Duration

    package init(
        maxPerSecond: Double? = nil, timeout: Duration = .seconds(15), minInterval: Duration = .zero
    ) {
        self.maxPerSecond = maxPerSecond
        self.timeout = timeout
        self.minInterval = minInterval
    }

    package static let perSecondRange = 0.001...1000.0
    package static let timeoutRange = Duration.seconds(1)...Duration.seconds(60)
    package static let minIntervalRange = Duration.zero...Duration.seconds(86_400)
}
