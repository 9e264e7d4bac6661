import StalecastHub
import StalecastWire
import Synchronization
import Testing

@Suite struct HerdExperienceTests {
    private let herd = HerdWindow(budget: 100)

    /// Loads one version: `fetches` answers within its herd's time.
    private func load(
        _ sequence: CommitSequence, fetches: Int, seconds: Double = 0.001, windowMs: Int = 10_000,
        refusals: [Int] = [], idle: Int = 0
    ) -> FetchLoad {
        var load = FetchLoad(sequence, fetchWindowMs: windowMs, at: 0)
        for _ in 0..<fetches { load.answered(in: seconds, at: 1_000_000_000) }
        for status in refusals { load.refused(status: status, at: 2_000_000_000) }
        for _ in 0..<idle { load.answered(in: 0.09, at: 60_000_000_000) }
        return load
    }

    /// Time after the herd's.
    private let later: UInt64 = 60_000_000_000

    private func window(_ experience: HerdExperience, _ subscribers: Int) -> Int {
        herd.milliseconds(subscribers: subscribers, isUrgent: false, experience: experience)
    }

    @Test func oneFetchOfEachIsWhatTheRuleSaysAnyway() {
        var experience = HerdExperience()
        #expect(experience.fetchesPerStream == nil && experience.budget(of: herd) == 100)
        for sequence in 1...20 as ClosedRange<CommitSequence> {
            experience.learn(load(sequence, fetches: 1000), notified: 1000, of: herd, isOver: true, at: later)
            #expect(experience.fetchesPerStream == 1 && experience.budget(of: herd) == 100)
            #expect(window(experience, 1000) == 10_000 && window(experience, 101) == 1010)
            #expect(window(experience, 100) == 0)
        }
    }

    @Test func moreFetchesMakeItLongerByTheNewestVersions() {
        var experience = HerdExperience()
        experience.learn(load(1, fetches: 2000), notified: 1000, of: herd, isOver: true, at: later)
        #expect(experience.fetchesPerStream == 2 && window(experience, 1000) == 20_000)
        experience.learn(load(2, fetches: 1100), notified: 1000, of: herd, isOver: true, at: later)
        #expect(abs((experience.fetchesPerStream ?? 0) - 1.8) < 1e-12 && window(experience, 1000) == 18_000)
    }

    @Test func fewerFetchesShortenItOnlyWhenAsManyWereSeenAsThereAreSubscribers() {
        var experience = HerdExperience()
        experience.learn(load(1, fetches: 500), notified: 1000, of: herd, isOver: true, at: later)
        #expect(experience.fetches == 500 && window(experience, 1000) == 10_000)
        experience.learn(load(2, fetches: 500), notified: 1000, of: herd, isOver: true, at: later)
        #expect(experience.fetches == 1000 && window(experience, 1000) == 5000)
        #expect(window(experience, 1001) == 10_010, "1,000 fetches say nothing of 1,001")
    }

    @Test func subscribersThatFetchAtTheOriginShortenNothing() {
        var experience = HerdExperience()
        for sequence in 1...20 as ClosedRange<CommitSequence> {
            experience.learn(load(sequence, fetches: 0), notified: 1000, of: herd, isOver: true, at: later)
        }
        #expect(experience.fetchesPerStream == nil && window(experience, 1000) == 10_000)
    }

    @Test func aVersionCountsOnceAndNotBeforeItsHerdHadItsTime() {
        var experience = HerdExperience()
        experience.learn(load(1, fetches: 3000), notified: 1000, of: herd, isOver: false, at: 13_000_000_000)
        #expect(experience.fetchesPerStream == nil)
        experience.learn(load(1, fetches: 3000), notified: 1000, of: herd, isOver: false, at: 13_000_000_001)
        experience.learn(load(1, fetches: 9000), notified: 1000, of: herd, isOver: true, at: later)
        #expect(experience.fetchesPerStream == 3)
        // One that the next version cut short shows too few fetches; too many are too many all the same.
        experience.learn(load(2, fetches: 10), notified: 1000, of: herd, isOver: true, at: 5_000_000_000)
        #expect(experience.fetchesPerStream == 3)
        experience.learn(load(3, fetches: 4000), notified: 1000, of: herd, isOver: true, at: 5_000_000_000)
        #expect((experience.fetchesPerStream ?? 0) > 3)
    }

    @Test(arguments: [[503], [429], Array(repeating: 500, count: 11)])
    func refusalsTakeTheBudgetDownAndCleanWindowsBringItBack(refusals: [Int]) {
        var experience = HerdExperience()
        experience.learn(
            load(1, fetches: 1000, refusals: refusals), notified: 1000, of: herd, isOver: true, at: later)
        #expect(experience.budget(of: herd) == 70 && window(experience, 700) == 10_000)
        for (turn, budget) in [75, 80, 85, 90, 95, 100, 100].enumerated() {
            let sequence = CommitSequence(turn + 2)
            experience.learn(load(sequence, fetches: 1000), notified: 1000, of: herd, isOver: true, at: later)
            #expect(experience.budget(of: herd) == budget)
        }
    }

    @Test func aFailureInAHundredIsBorne() {
        var experience = HerdExperience()
        experience.learn(
            load(1, fetches: 990, refusals: Array(repeating: 500, count: 10)), notified: 1000, of: herd, isOver: true,
            at: later)
        #expect(experience.budget(of: herd) == 100)
    }

    @Test func slownessIsMeasuredAgainstTheIdleHours() {
        var experience = HerdExperience()
        experience.learn(
            load(1, fetches: 1000, seconds: 0.2), notified: 1000, of: herd, isOver: true, at: later)
        #expect(experience.budget(of: herd) == 70, "250 ms are more than four times 25 ms")
        experience = HerdExperience()
        experience.learn(
            load(1, fetches: 1000, seconds: 0.2, idle: 20), notified: 1000, of: herd, isOver: true, at: later)
        #expect(experience.budget(of: herd) == 100, "and less than four times 100 ms")
        experience = HerdExperience()
        experience.learn(load(1, fetches: 19, seconds: 9), notified: 1000, of: herd, isOver: true, at: later)
        #expect(experience.budget(of: herd) == 100, "19 answers have no 99th percentile")
    }

    @Test func theBudgetStaysWithinItsBounds() {
        let herd = HerdWindow(budget: 100, least: 40, most: 120)
        var experience = HerdExperience()
        for sequence in 1...5 as ClosedRange<CommitSequence> {
            experience.learn(
                load(sequence, fetches: 1, refusals: [503]), notified: 1, of: herd, isOver: true, at: later)
        }
        #expect(experience.budget(of: herd) == 40)
        for sequence in 6...40 as ClosedRange<CommitSequence> {
            experience.learn(load(sequence, fetches: 1000), notified: 1000, of: herd, isOver: true, at: later)
        }
        #expect(experience.budget(of: herd) == 120)
        #expect(herd.milliseconds(subscribers: 1200, isUrgent: false, experience: experience) == 10_000)
        // No version has had so many subscribers before.
        #expect(herd.milliseconds(subscribers: 12_000, isUrgent: false, experience: experience) == 120_000)
    }

    @Test(arguments: [0, 1, Int(1) << 53, .max])
    func hostileFiguresMakeNoHostileWindow(notified: Int) {
        for budget in [1, 100, 1 << 53] {
            for windowMs in [-1, 0, .max] {
                let herd = HerdWindow(budget: budget)
                var experience = HerdExperience()
                experience.learn(
                    load(1, fetches: 100, seconds: .infinity, windowMs: windowMs, refusals: [503, -1]),
                    notified: notified, of: herd, isOver: true, at: .max)
                let share = experience.fetchesPerStream ?? 1
                #expect(share.isFinite && (0...10).contains(share))
                #expect(herd.budgets.contains(experience.budget(of: herd)))
                for subscribers in [0, 1, 1 << 53, Int.max] {
                    let window = herd.milliseconds(subscribers: subscribers, isUrgent: false, experience: experience)
                    #expect((0...300_000).contains(window))
                }
            }
        }
    }

    @Test func theHubLearnsFromTheFetchesOfTheVersionBefore() throws {
        let book = RolloutTracker()
        let loop = book.addLoop()
        let hub = Hub(board: .make(), herds: [.demo: HerdWindow(budget: 10)], propagation: book)
        hub.count([.demo: 40], of: book)
        hub.announce(.make(1), at: 0)
        var herd = try #require(hub.herd(of: .demo))
        #expect((herd.windowMs, herd.pacedOverMs, herd.subscribers) == (4000, 0, 40))
        #expect((herd.configuredBudget, herd.budget) == (10, 10) && herd.fetchesPerStream == nil)
        var streamCounts = StreamCounts()
        streamCounts.streams = 30
        streamCounts.polls = 10
        book.note(streamCounts, of: loop, in: .demo, 1)
        for number in 0..<80 {
            book.fetched(ClientIdentity("c\(number / 2)"), .demo, 1, address: (key: 1, isLimited: false))
        }
        book.refused(.demo, status: 503)
        hub.announce(.make(2), at: 0)
        herd = try #require(hub.herd(of: .demo))
        #expect((herd.windowMs, herd.budget) == (11_429, 7) && herd.fetchesPerStream == 2)
        #expect(hub.board.topics[0].encodedMessage?.message.fetchWindowMs == 11_429)
        let fetches = book.propagation(of: .demo, 1)?.fetches
        #expect(fetches?.errors == 1 && fetches?.answers == 80)
        #expect(hub.herd(of: .server) == nil)
    }

    @Test func oneClientsManyFetchesDelayNoOtherClient() throws {
        let book = RolloutTracker()
        let loop = book.addLoop()
        let hub = Hub(board: .make(), herds: [.demo: HerdWindow(budget: 10)], propagation: book)
        hub.count([.demo: 40], of: book)
        hub.announce(.make(1), at: 0)
        var streamCounts = StreamCounts()
        streamCounts.streams = 40
        book.note(streamCounts, of: loop, in: .demo, 1)
        for number in 0..<40 {
            book.fetched(ClientIdentity("c\(number)"), .demo, 1, address: (key: 1, isLimited: false))
        }
        for _ in 0..<5000 {
            book.fetched(ClientIdentity("stranger"), .demo, 1, address: (key: 2, isLimited: true))
            book.fetched(nil, .demo, 1, address: (key: 2, isLimited: true))
        }
        hub.announce(.make(2), at: 0)
        let herd = try #require(hub.herd(of: .demo))
        #expect(herd.fetchesPerStream == 42.0 / 40 && herd.windowMs == 4200)
        #expect(book.propagation(of: .demo, 1)?.fetches.answers == 10_040, "all are counted where they move nothing")
    }

    @Test func firebaseStreamsArePacedWhenTheyAloneAreTooMany() {
        let hub = Hub(board: .make(), herds: [.demo: HerdWindow(budget: 10)])
        let shard = RolloutTracker()
        let paces = Mutex<[Int]>([])
        _ = hub.attach { event in
            if case .announcement(let announcement) = event { paces.withLock { $0.append(announcement.pacedOverMs) } }
        }
        hub.count([.demo: 100], firebase: [.demo: 10], of: shard)
        hub.announce(.make(1), at: 0)
        hub.count([.demo: 100], firebase: [.demo: 11], of: shard)
        hub.announce(.make(2), at: 0)
        hub.announce(.make(3, updateType: .rollback), at: 0)
        #expect(paces.withLock { $0 } == [0, 10_000, 0])
    }
}
