import StalecastSources
import StalecastStore
import StalecastTestServers
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

@Suite struct SourceWatcherTests {
    private let source = ScriptedSource()
    private let fresh: FreshStore
    private let reports = Reports()
    private static let scope = Scope(project: .demo, namespace: .firebase)
    /// Interval so long that only triggers make a look in a test's time.
    private static let seldom = PollSchedule(interval: .seconds(3600))
    private static let often = PollSchedule(interval: .milliseconds(20), longestPause: .milliseconds(20))

    init() throws { fresh = try FreshStore() }

    private func watcher(_ schedule: PollSchedule, isNumbered: Bool = false) -> SourceWatcher {
        SourceWatcher(
            Self.scope, source: source, isNumbered: isNumbered, store: fresh.store, schedule: schedule,
            report: reports.add)
    }

    @Test func aWatcherPollsAtOnceAndAdopts() async throws {
        source.show("a", version: 7)
        let watcher = watcher(Self.seldom)
        try await watching(watcher) {
            try await eventually { fresh.adopted.count == 1 && watcher.status.lastSuccess != nil }
        }
        #expect(reports.all == [.adopted(1, hasFenceTimedOut: false)])
        #expect(watcher.status.originVersion == 7)
        #expect(watcher.status.counts.adopted == 1)
        #expect(source.polls == 1)
    }

    @Test func whatIsCurrentIsNotAdoptedAgain() async throws {
        source.show("a")
        let watcher = watcher(Self.often)
        try await watching(watcher) { try await eventually { source.polls > 5 } }
        #expect(fresh.adopted.count == 1)
    }

    @Test func aTriggerPollsNow() async throws {
        let watcher = watcher(Self.seldom)
        try await watching(watcher) {
            try await eventually { watcher.status.lastSuccess != nil }
            source.show("a")
            watcher.poll()
            try await eventually { fresh.adopted.count == 1 }
        }
        #expect(source.polls == 2)
    }

    @Test func triggersDuringAPollMakeOneMore() async throws {
        let opened = Mutex(false)
        source.hold { try? await eventually { opened.withLock { $0 } } }
        let watcher = watcher(Self.seldom)
        try await watching(watcher) {
            try await eventually { source.polls == 1 }
            for _ in 0..<50 { watcher.poll() }
            opened.withLock { $0 = true }
            try await eventually { source.polls == 2 && !watcher.status.isPolling }
            try? await Task.sleep(for: .milliseconds(100))
            #expect(source.polls == 2)
        }
    }

    @Test func aPromisedVersionIsPolledForUntilItShows() async throws {
        source.show("a", version: 4)
        let watcher = watcher(Self.seldom)
        try await watching(watcher) {
            try await eventually { watcher.status.originVersion == 4 }
            source.show(.unchanged)
            watcher.poll(expecting: 5)
            try await eventually { source.polls >= 4 }
            source.show("b", version: 5)
            try await eventually { fresh.adopted.count == 2 }
        }
    }

    @Test func aPromiseThatIsNotKeptIsGivenUp() {
        let schedule = PollSchedule()
        let pauses = (0..<20).map { schedule.pause(promisedPolls: $0) }
        #expect(pauses[0] == .milliseconds(50))
        #expect(pauses.compactMap(\.self).count == 8)
    }

    @Test func aProblemIsReportedOnceUntilItIsAnother() async throws {
        let first = OriginProblem(.invalidContent, "not JSON")
        source.show(.failed(first))
        let watcher = watcher(PollSchedule(interval: .milliseconds(10), longestPause: .milliseconds(10)))
        try await watching(watcher) {
            try await eventually { (watcher.status.failing?.count ?? 0) >= 2 }
            #expect(watcher.status.problem == first)
            let second = OriginProblem(.unreachable, "refused")
            source.show(.failed(second))
            watcher.poll()
            try await eventually { watcher.status.problem == second }
            source.show(.unchanged)
            watcher.poll()
            try await eventually { watcher.status.problem == nil }
            let all = reports.all
            #expect(all.prefix(2) == [.problem(first), .problem(second)])
            guard case .recovered(let failures) = try #require(all.last) else {
                Issue.record("\(all)")
                return
            }
            #expect(failures >= 3)
        }
    }

    @Test func unusableContentDoesNotLengthenThePauseOfALaterFailure() async throws {
        source.show(.failed(OriginProblem(.invalidContent, "not JSON")))
        let watcher = watcher(PollSchedule(interval: .milliseconds(10), longestPause: .seconds(300)))
        try await watching(watcher) {
            try await eventually { (watcher.status.failing?.count ?? 0) >= 12 }
            source.show(.failed(OriginProblem(.unreachable, "503")))
            try await eventually { watcher.status.problem?.reason == .unreachable }
            let pause = try #require(watcher.status.nextPollAt) - #require(watcher.status.lastPoll).at
            // Half a second at most after one failure, minutes after twelve.
            #expect(pause <= .milliseconds(500))
        }
    }

    @Test func retryAfterHoldsTriggersBack() async throws {
        source.show(.failed(OriginProblem(.throttled, "429", retryAfter: .milliseconds(400))))
        let watcher = watcher(Self.often)
        // Before the failure, so that a test that is late to see it does not ask for more than was promised.
        let begun = ContinuousClock.now
        try await watching(watcher) {
            try await eventually { watcher.status.failing?.count == 1 }
            source.show("a")
            try await eventually {
                watcher.poll()
                return !fresh.adopted.isEmpty
            }
            #expect(fresh.adopted.count == 1)
            #expect(ContinuousClock.now - begun >= .milliseconds(400))
        }
    }

    @Test func whatCannotBeAdoptedIsForgottenAndTriedAgain() async throws {
        source.show("a", version: 5)
        let watcher = watcher(Self.often, isNumbered: true)
        try await watching(watcher) {
            try await eventually { fresh.adopted.map(\.version) == [5] }
            source.show("b", version: 3)
            try await eventually { watcher.status.problem?.reason == .older }
            source.show("b", version: 5)
            try await eventually { watcher.status.problem?.reason == .sameVersion }
            #expect(source.forgotten > 0)
            source.show("b", version: 6)
            try await eventually { fresh.adopted.map(\.version) == [5, 6] && watcher.status.problem == nil }
        }
    }

    @Test func aCommitThatFailsIsAProblemOfTheStore() async throws {
        source.show("a")
        let elsewhere = Scope(project: try ProjectID("nobody"), namespace: .firebase)
        let watcher = SourceWatcher(elsewhere, source: source, store: fresh.store, schedule: Self.often)
        try await watching(watcher) { try await eventually { watcher.status.problem?.reason == .store } }
        #expect(source.forgotten > 0)
    }

    @Test func whatWasAdoptedBeforeARestartIsStillKnown() async throws {
        source.show("a")
        let before = watcher(Self.often)
        try await watching(before) { try await eventually { fresh.adopted.count == 1 } }
        let status = watcher(Self.seldom).status
        #expect(try status.version == 1 && status.lastChange == fresh.adopted[required: 0].metadata.updateTime)
    }

    @Test func failuresBackOffUpToTheLongestPause() {
        let schedule = PollSchedule(interval: .seconds(2), longestPause: .seconds(60))
        let pauses = (1...10).map { schedule.pause(failures: $0, retryAfter: nil, random: 1) }
        #expect(pauses == [2, 4, 8, 16, 32, 60, 60, 60, 60, 60].map { .seconds($0) })
        #expect(schedule.pause(failures: 1, retryAfter: nil, random: 0) == .seconds(1))
        let seldom = PollSchedule(interval: .seconds(3600))
        #expect(
            (1...3).map { seldom.pause(failures: $0, retryAfter: nil, random: 1) } == [5, 10, 20].map { .seconds($0) })
        #expect(seldom.pause(failures: 30, retryAfter: nil, random: 1) == .seconds(3600))
        #expect(schedule.pause(failures: 1, retryAfter: .seconds(90), random: 0) == .seconds(90))
        #expect(schedule.pause(failures: 1, retryAfter: .seconds(1 << 30), random: 0) == .seconds(3600))
    }

    /// One replica of the origin knows the version and another does not: that is over in less than a second.
    @Test func aPromisedVersionIsPolledForSooner() async throws {
        let problem = OriginProblem(.notFound, "not yet", retryAfter: .milliseconds(20), isSoonOver: true)
        source.show(.failed(problem))
        let watcher = watcher(Self.seldom)
        try await watching(watcher) {
            try await eventually { watcher.status.failing?.count == 1 }
            let pause = try #require(watcher.status.nextPollAt) - #require(watcher.status.lastPoll).at
            // Without that it is 2.5 to 5 s.
            #expect(pause <= .milliseconds(20))
        }
        let schedule = PollSchedule()
        let pauses = (1...20).map { schedule.pause(failures: $0, after: problem, random: 1) }
        #expect(
            Array(pauses[..<4]) == [20, 40, 80, 160].map { .milliseconds($0) } && pauses[19] == schedule.longestPause)
    }

    @Test func jitterStaysWithinItsShare() {
        let schedule = PollSchedule(interval: .seconds(10), jitter: 0.1)
        #expect(schedule.pause(hears: false, random: 0) == .seconds(9))
        #expect(schedule.pause(hears: false, random: 1) == .seconds(11))
        #expect(schedule.pause(hears: true, random: 0.5) == .seconds(100))
        let promised = PollSchedule(interval: .seconds(10), jitter: 0, longestTrust: .seconds(25))
        #expect(promised.pause(hears: true, random: 0) == .seconds(25))
        let tight = PollSchedule(interval: .seconds(10), jitter: 0, longestTrust: .seconds(2))
        #expect(tight.pause(hears: true, random: 0) == .seconds(10))
    }

    @Test func theAgeCountsFromTheLastGoodPoll() async throws {
        let status = SourceStatus(scope: Self.scope, kind: .http, place: "", began: .now - .seconds(30))
        #expect(status.age(at: .now) >= .seconds(30))
        var seen = status
        let poll = ContinuousClock.now
        seen.lastSuccess = SourceStatus.Poll(.now(), at: poll)
        #expect(seen.age(at: poll + .seconds(2)) == .seconds(2))
    }

    /// Cancels a watcher: in a cluster the same one runs again when its assignment comes back.
    @Test func whatWasNotAdoptedAtTheEndIsSeenAgain() async throws {
        source.show("a")
        // Ends when the watcher's task is cancelled, as the wait at a fence does.
        source.hold { await untilCancelled() }
        let watcher = watcher(Self.seldom)
        try await watching(watcher) { try await eventually { source.polls == 1 } }
        #expect(source.forgotten == 1 && fresh.adopted.isEmpty)
    }

    @Test func cancellingEndsAWatcherThatWaits() async throws {
        let watcher = watcher(Self.seldom)
        let task = Task { await watcher.run() }
        try await eventually { watcher.status.lastSuccess != nil }
        task.cancel()
        await task.value
    }
}
