import StalecastDaemon
import StalecastWire
import Testing

@Suite struct TimelineTests {
    private static let noon = Timestamp("2026-11-20T12:00:00Z")!

    private static func at(_ seconds: Int64) -> Timestamp { noon.advanced(by: .seconds(seconds)) }

    private static func sample(_ streams: Int, _ total: Int = 0) -> Timeline.Sample {
        Timeline.Sample(streams: streams, deliveries: total, fetches: 2 * total, failures: total / 10)
    }

    @Test func aPointHasTheMostStreamsAndWhatHappenedWithinItsStep() {
        var timeline = Timeline()
        timeline.take(Self.sample(5, 10), at: Self.at(0))
        timeline.take(Self.sample(9, 25), at: Self.at(59))
        timeline.take(Self.sample(2, 31), at: Self.at(60))
        #expect(timeline.hour.points.map(\.counts.streams) == [9, 2])
        #expect(timeline.hour.points.map(\.counts.deliveries) == [25, 6])
        #expect(timeline.hour.points.map(\.counts.fetches) == [50, 12])
        #expect(timeline.hour.points.map(\.counts.failures) == [2, 1])
        #expect(timeline.day.points.map(\.counts) == [Self.sample(9, 31)])
        #expect(timeline.day.points.first?.time == Self.noon)
    }

    @Test func itHoldsAnHourAndADayHoweverLongItRuns() {
        var timeline = Timeline()
        for second in stride(from: Int64(0), to: 3 * 86_400, by: 30) {
            timeline.take(Self.sample(1), at: Self.at(second))
        }
        #expect(timeline.hour.points.count == 60)
        #expect(timeline.day.points.count == 96)
        #expect(timeline.hour.points.first?.time == Self.at(3 * 86_400 - 3600))
        #expect(timeline.day.points.last?.time == Self.at(3 * 86_400 - 900))
    }

    @Test func aPauseLeavesAGapAndNoPointOfIt() {
        var timeline = Timeline()
        timeline.take(Self.sample(1), at: Self.at(0))
        timeline.take(Self.sample(1), at: Self.at(1800))
        #expect(timeline.hour.points.map(\.time) == [Self.at(0), Self.at(1800)])
        timeline.take(Self.sample(1), at: Self.at(1800 + 86_400))
        #expect(timeline.hour.points.count == 1)
        #expect(timeline.day.points.count == 1)
    }

    @Test func aClockThatIsSetBackDropsWhatIsAhead() {
        var timeline = Timeline()
        timeline.take(Self.sample(1, 10), at: Self.at(0))
        timeline.take(Self.sample(2, 20), at: Self.at(7200))
        timeline.take(Self.sample(3, 30), at: Self.at(60))
        #expect(timeline.hour.points.map(\.time) == [Self.at(60)])
        #expect(timeline.hour.points.map(\.counts.deliveries) == [10])
    }

    @Test func itGoesOnAfterARestartWithCountersFromZero() throws {
        var former = Timeline()
        former.take(Self.sample(4, 100), at: Self.at(0))
        former.take(Self.sample(4, 140), at: Self.at(120))
        var timeline = Timeline(try JSONValue.parse(Array(JSONValue.object(former.json).text().utf8)))
        #expect(timeline.hour == former.hour)
        #expect(timeline.day == former.day)
        timeline.take(Self.sample(1, 7), at: Self.at(180))
        #expect(timeline.hour.points.map(\.counts.deliveries) == [100, 40, 7])
    }

    @Test(arguments: ["{}", "[]", #"{"hour":{"points":[{"time":"x"},{"streams":1},7]}}"#, #"{"hour":7}"#])
    func aDamagedFileBeginsAnEmptyOne(text: String) throws {
        #expect(Timeline(try JSONValue.parse(Array(text.utf8))) == Timeline())
    }

    @Test func countsOfAFileAreNotTrusted() throws {
        let text =
            #"{"hour":{"points":[{"time":"2026-11-20T12:00:00Z","streams":-5,"deliveries":9223372036854775807}]}}"#
        var timeline = Timeline(try JSONValue.parse(Array(text.utf8)))
        #expect(timeline.hour.points.map(\.counts.streams) == [0])
        timeline.take(Self.sample(1, 5), at: Self.at(1))
        #expect(timeline.hour.points.map(\.counts.deliveries) == [.max])
    }
}
