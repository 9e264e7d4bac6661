import StalecastEtcd
import Testing

/// Tests how long a call to etcd may take.
@Suite struct EtcdPaceTests {
    private func pace(_ times: [Duration], most: Duration = .seconds(10)) -> EtcdPace {
        var pace = EtcdPace(least: .milliseconds(1500), most: most)
        for time in times { pace.answered(in: time) }
        return pace
    }

    @Test func quickMembersHaveTheLeast() {
        #expect(pace([]).limit == .milliseconds(1500))
        #expect(pace(Array(repeating: .milliseconds(3), count: 100)).limit == .milliseconds(1500))
    }

    @Test func slowOnesHaveThreeTimesWhatIsExpected() {
        let steady = pace(Array(repeating: .milliseconds(800), count: 200)).limit
        #expect(steady > .milliseconds(2399) && steady < .milliseconds(2401))
        // The first answer alone may be off by half.
        #expect(pace([.milliseconds(800)]).limit == .milliseconds(7200))
        // Answers that differ need more time than steady ones of the same mean.
        let unsteady = pace((0..<200).map { .milliseconds($0 % 2 == 0 ? 200 : 1400) }).limit
        #expect(unsteady > steady * 2)
        #expect(pace([.seconds(9)]).limit == .seconds(10))
    }

    @Test func eachMissDoublesItAndAnAnswerEndsThat() {
        var pace = pace(Array(repeating: .milliseconds(3), count: 100))
        pace.missed()
        #expect(pace.limit == .seconds(3))
        pace.missed()
        #expect(pace.limit == .seconds(6))
        for _ in 0..<100 { pace.missed() }
        #expect(pace.limit == .seconds(10))
        pace.answered(in: .milliseconds(3))
        #expect(pace.limit == .milliseconds(1500))
    }

    @Test func aFixedOneStays() {
        var pace = pace([.seconds(1), .seconds(9)], most: .milliseconds(1500))
        for _ in 0..<3 { pace.missed() }
        #expect(pace.limit == .milliseconds(1500))
    }
}
