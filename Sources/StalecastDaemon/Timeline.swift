package import StalecastWire

/// Activity of the daemon: its last hour by minute and its last day by quarter of an hour. It holds at most 60 and 96
/// points, however long it runs.
package struct Timeline: Sendable, Equatable {
    /// Counts at one moment. All but `streams` only grow while the daemon runs.
    package struct Sample: Sendable, Equatable {
        package var streams: Int
        package var deliveries: Int
        package var fetches: Int
        package var failures: Int

        package init(streams: Int, deliveries: Int, fetches: Int, failures: Int) {
            (self.streams, self.deliveries, self.fetches, self.failures) = (streams, deliveries, fetches, failures)
        }
    }

    /// One step of a series.
    package struct Point: Sendable, Equatable {
        /// Begin of the step, a multiple of its length.
        package let time: Timestamp
        /// Counts within the step; `streams` is the most that were open at once.
        package fileprivate(set) var counts: Sample
    }

    /// Points of one length, oldest first. Steps in which the daemon did not run have none.
    package struct Series: Sendable, Equatable {
        /// Seconds that a point stands for.
        package let step: Int64
        private let most: Int
        package private(set) var points: [Point] = []

        fileprivate init(step: Int64, most: Int) { (self.step, self.most) = (step, most) }

        fileprivate mutating func add(_ counts: Sample, at now: Timestamp) {
            let length = step * 1_000_000
            let time = Timestamp(microseconds: now.microseconds - now.microseconds % length)
            // A clock that was set back would leave them at the end until it comes there again.
            points.removeAll { $0.time > time }
            if points.last?.time == time {
                points[points.count - 1].counts.add(counts)
            } else {
                points.append(Point(time: time, counts: counts))
            }
            removeOld(now: time)
        }

        private mutating func removeOld(now: Timestamp) {
            let oldest = now.microseconds - Int64(most) * step * 1_000_000
            points.removeAll { $0.time.microseconds <= oldest }
        }
    }

    package private(set) var hour = Series(step: 60, most: 60)
    package private(set) var day = Series(step: 900, most: 96)
    /// The sample before; nil before the first one of this process.
    private var former: Sample?

    package init() {}

    /// Counts what happened since the sample before. The first sample of a process counts from 0.
    package mutating func take(_ sample: Sample, at now: Timestamp) {
        let counts = sample.since(former)
        former = sample
        hour.add(counts, at: now)
        day.add(counts, at: now)
    }
}

extension Timeline.Sample {
    /// Counts that only grow.
    private static var growing: [WritableKeyPath<Self, Int>] { [\.deliveries, \.fetches, \.failures] }

    fileprivate mutating func add(_ other: Self) {
        streams = max(streams, other.streams)
        for count in Self.growing {
            // The file may hold any number.
            let (sum, isTooLarge) = self[keyPath: count].addingReportingOverflow(other[keyPath: count])
            self[keyPath: count] = isTooLarge ? .max : sum
        }
    }

    fileprivate func since(_ former: Self?) -> Self {
        guard let former else { return self }
        var counts = self
        for count in Self.growing { counts[keyPath: count] = max(0, self[keyPath: count] - former[keyPath: count]) }
        return counts
    }
}

// MARK: JSON, on the wire and in the file

extension Timeline {
    package var json: JSONObject { ["hour": hour.json, "day": day.json] }

    /// Reads what ``json`` wrote; leaves out what is no point.
    package init(_ json: JSONValue) {
        self.init()
        hour.read(json["hour"])
        day.read(json["day"])
    }
}

extension Timeline.Series {
    fileprivate var json: JSONValue {
        ["stepSeconds": .int(step), "points": .array(points.map(\.json))]
    }

    fileprivate mutating func read(_ json: JSONValue?) {
        for point in json?["points"]?.array ?? [] {
            guard let time = point["time"]?.string.flatMap(Timestamp.init), time > points.last?.time ?? .zero else {
                continue
            }
            add(Timeline.Sample(point), at: time)
        }
    }
}

extension Timestamp {
    fileprivate static let zero = Timestamp(microseconds: 0)
}

extension Timeline.Point {
    fileprivate var json: JSONValue {
        [
            "time": .string(time.description), "streams": .int(counts.streams), "deliveries": .int(counts.deliveries),
            "fetches": .int(counts.fetches), "failures": .int(counts.failures),
        ]
    }
}

extension Timeline.Sample {
    fileprivate init(_ point: JSONValue) {
        func count(_ name: String) -> Int { Int(max(0, point[name]?.int64 ?? 0)) }
        self.init(
            streams: count("streams"), deliveries: count("deliveries"), fetches: count("fetches"),
            failures: count("failures"))
    }
}
