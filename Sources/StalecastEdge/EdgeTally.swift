package import StalecastHub

/// What a shard or the Front has counted since start. Counters only grow; gauges are as of the last report.
package struct EdgeTally: Sendable {
    /// Messages written whole or into a backlog, by transport.
    package var deliveries: [Transport: Int] = [:]
    /// Messages skipped because a newer one took their place in a slot.
    package var coalesced = 0
    package var drops: [DropReason: Int] = [:]
    package var accepted = 0
    /// Connections refused, by cap.
    package var refused: [DropReason: Int] = [:]
    /// Connections the engine left to the Front.
    package var handedOver = 0
    package var heartbeats = 0
    /// Messages of Firebase's streams said a second time after a burst.
    package var echoes = 0
    /// Gauges: streams, held polls, and subscribers with a backlog.
    package var streams = 0
    package var polls = 0
    package var stalled = 0
    package var publishToWritten = LatencyHistogram()
    package var fetches = FetchTally()

    package init() {}

    package mutating func merge(_ other: EdgeTally) {
        deliveries.merge(other.deliveries, uniquingKeysWith: +)
        coalesced += other.coalesced
        drops.merge(other.drops, uniquingKeysWith: +)
        accepted += other.accepted
        refused.merge(other.refused, uniquingKeysWith: +)
        handedOver += other.handedOver
        heartbeats += other.heartbeats
        echoes += other.echoes
        streams += other.streams
        polls += other.polls
        stalled += other.stalled
        publishToWritten.merge(other.publishToWritten)
        fetches.merge(other.fetches)
    }
}

/// Counts of durations in fixed buckets, for Prometheus.
package struct LatencyHistogram: Sendable {
    /// Upper bounds in seconds; one more bucket takes the rest.
    package static let bounds: [Double] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

    package private(set) var counts = [Int](repeating: 0, count: bounds.count + 1)
    package private(set) var sum: Double = 0

    package mutating func record(seconds: Double, count: Int = 1) {
        let bucket = Self.bounds.firstIndex { seconds <= $0 } ?? Self.bounds.count
        counts[bucket] += count
        sum += seconds * Double(count)
    }

    package mutating func merge(_ other: LatencyHistogram) {
        for index in counts.indices { counts[index] += other.counts[index] }
        sum += other.sum
    }
}
