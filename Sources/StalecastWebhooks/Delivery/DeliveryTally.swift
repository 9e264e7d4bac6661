package import StalecastOutbound
package import StalecastWire

/// Sums of all deliveries so far; counters unless said otherwise.
package struct DeliveryTally: Sendable {
    /// Attempts by class of outcome; within ``DeliveryState``, those that delivered are not among them.
    package var attempts: [String: Int] = [:]
    package var delivered = 0
    package var failed = 0
    /// Versions that were folded into a newer one.
    package var coalesced = 0
    package var deadLetters = 0
    /// Webhooks that were owed something and that were not looked at; stays 0.
    package var stuck = 0
    /// Time from a commit's announcement to the 2xx; of webhooks that answered last time, and of all.
    package var latencyOfHealthy = Histogram(bounds: bounds)
    package var latency = Histogram(bounds: bounds)
    /// Total time of the parts of attempts, in microseconds.
    package var phases = OutboundOutcome.Phases()
    /// Gauges.
    package var underWay: [String: Int] = [:]
    package var waiting = 0
    package var targets: [String: Int] = [:]
    package var failing = 0
    package var longestLag: Int64 = 0
    /// Age of the oldest version that is owed, in seconds.
    package var oldestPending = 0.0

    /// Upper bounds in seconds; a receiver that answers after ten minutes has been tried again.
    private static let bounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600]

    package init() {}
}
