package import StalecastWire

/// Times when clients reached one stage of a version: exact times of the shares, and a histogram over log time.
package struct StageTimes: Sendable, Hashable {
    /// Nanoseconds from the announcement; nil until that share of the audience is there, never estimated.
    package private(set) var t50: UInt64?
    package private(set) var t95: UInt64?
    package private(set) var t99: UInt64?
    package private(set) var last: UInt64?
    /// Number of clients in each ``bound(_:)``; up to the last bound with a client.
    package private(set) var counts: [UInt32] = []
    private var reached = 0

    /// 1 ms to an hour, four to an octave.
    package static let buckets = 88

    package init() {}

    /// Makes a stage from its stored form.
    init(t50: UInt64?, t95: UInt64?, t99: UInt64?, last: UInt64?, counts: [UInt32] = []) {
        (self.t50, self.t95, self.t99, self.last, self.counts) = (t50, t95, t99, last, counts)
    }

    /// The end of a bucket, in seconds from the announcement.
    package static func bound(_ bucket: Int) -> Double {
        let octave = Double(1 << (bucket / 4)) / 1000
        return octave * [1, 1.189_207_115, 1.414_213_562, 1.681_792_831][bucket % 4]
    }

    /// Notes that so many of all that are awaited are there now.
    ///
    /// - Parameters:
    ///   - weight: how many each of them stands for.
    ///   - all: of all versions; clients that came are added.
    mutating func note(
        _ count: Int, of awaited: Int, weight: Int = 1, at elapsed: UInt64, _ all: inout Histogram
    ) {
        if count > reached {
            add((count - reached) * weight, at: elapsed)
            all.record(seconds: Double(elapsed) / 1e9, count: (count - reached) * weight)
            last = elapsed
        }
        reached = count
        guard awaited > 0 else { return }
        // Clients that leave are a share of those that came before.
        let time = last ?? elapsed
        if t50 == nil, count * 100 >= awaited * 50 { t50 = time }
        if t95 == nil, count * 100 >= awaited * 95 { t95 = time }
        if t99 == nil, count * 100 >= awaited * 99 { t99 = time }
    }

    /// The sample is another one: so many of it are there, and none of them came now.
    mutating func recount(_ count: Int) { reached = count }

    private mutating func add(_ count: Int, at elapsed: UInt64) {
        let seconds = Double(elapsed) / 1e9
        var bucket = 0
        while bucket < Self.buckets - 1, Self.bound(bucket) < seconds { bucket += 1 }
        while counts.count <= bucket { counts.append(0) }
        counts[bucket] = UInt32(clamping: Int(counts[bucket]) + count)
    }
}

/// Times that streams and clients took from an announcement to a stage, of all versions since the start.
package struct StageSeconds: Sendable, Hashable {
    package internal(set) var sent = Histogram(bounds: bounds)
    package internal(set) var fetched = Histogram(bounds: bounds)
    package internal(set) var active = Histogram(bounds: bounds)

    private static let bounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]
}
