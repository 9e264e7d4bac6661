package import StalecastHub
package import StalecastWire

/// Counts of a shard or the Front since start. Counters only grow; gauges are as of the last report.
package struct EdgeTally: Sendable {
    /// Messages written whole or into a backlog, by transport.
    package var deliveries: [Transport: Int] = [:]
    /// Messages skipped because a newer one took their place in a slot.
    package var coalesced = 0
    package var drops: [DropReason: Int] = [:]
    package var accepted = 0
    package var refused: [DropReason: Int] = [:]
    /// Connections the engine left to the Front.
    package var handedOver = 0
    /// Streams over TLS that the engine took out of BoringSSL's hands.
    package var takenOver = 0
    package var heartbeats = 0
    /// Messages of Firebase's streams said a second time after a burst.
    package var echoes = 0
    /// Gauges: streams, held polls, and subscribers with a backlog.
    package var streams = 0
    package var polls = 0
    package var stalled = 0
    package var publishToWritten = Histogram()
    package var fetches = FetchTally()

    private static let counts: [any WritableKeyPath<Self, Int> & Sendable] = [
        \.coalesced, \.accepted, \.handedOver, \.takenOver, \.heartbeats, \.echoes, \.streams, \.polls, \.stalled,
    ]

    package mutating func merge(_ other: EdgeTally) {
        for count in Self.counts { self[keyPath: count] += other[keyPath: count] }
        deliveries.merge(other.deliveries, uniquingKeysWith: +)
        drops.merge(other.drops, uniquingKeysWith: +)
        refused.merge(other.refused, uniquingKeysWith: +)
        publishToWritten.merge(other.publishToWritten)
        fetches.merge(other.fetches)
    }
}
