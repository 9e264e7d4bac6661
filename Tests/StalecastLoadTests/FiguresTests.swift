import Testing

import StalecastLoad

struct FiguresTests {
    @Test func percentilesAreByNearestRank() {
        let sample = LatencySample((1...100).map { UInt64($0) * 1_000_000 }.shuffled())
        #expect(sample.first == 1 && sample.p50 == 50 && sample.p99 == 99 && sample.last == 100)
        #expect(LatencySample([7_000_000]).p99 == 7)
        #expect(LatencySample([]).p50 == nil)
    }

    @Test func theMedianOfAnEvenNumberIsTheMeanOfTheTwoInTheMiddle() {
        #expect([3.0, 1, 2].median == 2)
        #expect([4.0, 1, 2, 3].median == 2.5)
        #expect([Double]().median == nil)
    }

    @Test func everyLatencyIsInTheBucketWhoseBoundsHoldIt() {
        let milliseconds: [Double] = [0.0001, 0.9, 1, 1.5, 4, 4.1, 63.9, 64, 5000]
        for value in milliseconds {
            let buckets = LatencyHistogram([UInt64(value * 1e6)]).buckets
            #expect(buckets.count == 1 && buckets[0].count == 1)
            #expect(buckets[0].lower <= max(value, 0.001) && max(value, 0.001) < buckets[0].upper)
        }
    }

    @Test func bucketsHaveNoGapsAndLoseNothing() {
        let buckets = LatencyHistogram([1_000_000, 1_100_000, 40_000_000]).buckets
        #expect(buckets.reduce(0) { $0 + $1.count } == 3)
        #expect(buckets.first?.count == 2 && buckets.last?.count == 1)
        #expect(zip(buckets, buckets.dropFirst()).allSatisfy { $0.upper == $1.lower })
        #expect(LatencyHistogram([UInt64]()).lines().isEmpty)
    }

    @Test func barsAreAsLongAsTheirShare() {
        #expect(LatencyHistogram.bar(10, of: 10, 4) == "████")
        #expect(LatencyHistogram.bar(5, of: 10, 4) == "██  ")
        #expect(LatencyHistogram.bar(1, of: 100_000, 4) == "▏   ")
        #expect(LatencyHistogram.bar(0, of: 10, 4) == "    ")
    }
}
