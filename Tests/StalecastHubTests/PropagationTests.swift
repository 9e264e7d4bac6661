import StalecastHub
import StalecastWire
import Testing

/// Longer than other files: all of it is one crowd that joins, fetches and leaves, and the equipment above is for it alone.
@Suite struct PropagationTests {
    @Test func whoWasThereAtTheAnnouncementIsTheAudience() {
        let crowd = Crowd()
        for name in ["a", "b", "c", "d"] { crowd.join(name) }
        crowd.publish(1)
        crowd.join("late")
        crowd.fetch("late", 1)
        crowd.fetch("unconnected", 1)
        crowd.fetch("a", 1)
        #expect(crowd.clients().audience == 4)
        #expect(crowd.clients().fetched == 1 && crowd.clients().behind == 3 && crowd.clients().left == 0)
    }

    @Test func whoIsGoneForTenSecondsHasLeftAndCountsAgainOnceItComesBack() {
        let crowd = Crowd()
        for name in ["stays", "goes", "returns", "fetched"] { crowd.join(name) }
        crowd.publish(1)
        crowd.fetch("fetched", 1)
        for name in ["goes", "returns", "fetched"] { crowd.leave(name) }
        crowd.wait(5000)
        crowd.join("returns")
        crowd.wait(4000)
        #expect(crowd.clients().left == 0)
        crowd.wait(2000)
        #expect(crowd.clients().left == 1 && crowd.clients().awaited == 3 && crowd.clients().fetched == 1)
        crowd.join("goes")
        #expect(crowd.clients().left == 0 && crowd.clients().behind == 3, "it is back and has not fetched")
        crowd.leave("goes")
        crowd.wait(11_000)
        #expect(crowd.clients().left == 1 && crowd.clients().lost == 1)
        crowd.fetch("goes", 1)
        #expect(crowd.clients().left == 0 && crowd.clients().lost == 0 && crowd.clients().fetched == 2)
    }

    @Test func topicsWhosePatternsTheChangeMissesAreNotConcerned() {
        let crowd = Crowd()
        crowd.join("all")
        crowd.join("pay", topic: crowd.hub.board.payTopic)
        crowd.publish(1, keys: ["welcome"])
        #expect(crowd.clients().audience == 1)
        crowd.publish(2, keys: ["pay_now"])
        #expect(crowd.clients().audience == 2)
    }

    @Test func aNewerVersionCountsForAnOlderOneAndNotTheOtherWayRound() {
        let crowd = Crowd()
        for name in ["a", "b"] { crowd.join(name) }
        crowd.publish(1)
        crowd.publish(2)
        crowd.fetch("a", 2)
        crowd.fetch("b", 1)
        #expect(crowd.clients(1).fetched == 2 && crowd.clients(2).fetched == 1)
        crowd.fetch("a", 1)
        #expect(crowd.clients(2).fetched == 1)
        #expect(crowd.book.propagation(of: .demo, 2)?.state == .spreading)
        #expect(crowd.book.propagation(of: .demo, 1)?.state == .superseded, "not all had it when the next one came")
    }

    @Test func timesAreExactOrNotThere() {
        let crowd = Crowd()
        for number in 0..<100 { crowd.join("c\(number)") }
        crowd.publish(1)
        for number in 0..<98 {
            crowd.wait(10)
            crowd.fetch("c\(number)", 1)
        }
        let stageTimes = crowd.book.propagation(of: .demo)!.fetched
        #expect(
            stageTimes.t50 == 500_000_000 && stageTimes.t95 == 950_000_000 && stageTimes.t99 == nil
                && stageTimes.last == 980_000_000)
        #expect(stageTimes.counts.reduce(0, +) == 98)
        crowd.leave("c98")
        crowd.wait(11_000)
        #expect(crowd.book.propagation(of: .demo)?.fetched.t99 == nil, "98 of 100 is less than 99 %")
        crowd.fetch("c99", 1)
        #expect(crowd.book.propagation(of: .demo)?.fetched.t99 == 11_980_000_000)
    }

    @Test func activeIsWhatClientsSayAndImpliesFetched() throws {
        let crowd = Crowd()
        for name in ["a", "b", "c"] { crowd.join(name) }
        crowd.publish(1)
        crowd.leave("a")
        crowd.join("a", active: 1)
        try crowd.claim("b", ClientReport(.active, 9000))
        try crowd.claim("c", ClientReport(.failed, 1, error: "no room"))
        #expect(crowd.clients().fetched == 2 && crowd.clients().active == 2 && crowd.clients().failed == 1)
        crowd.publish(2)
        #expect(crowd.clients(2).fetched == 0, "no client has a version that does not exist yet")
        try crowd.claim("c", ClientReport(.active, 1))
        #expect(crowd.clients(1).failed == 0)
    }

    @Test func thirtyTwoVersionsAreKeptAndEachIsWritten() {
        let crowd = Crowd()
        crowd.join("a")
        var settled: [VersionNumber] = []
        for version in 1...40 as ClosedRange<Int64> {
            crowd.publish(VersionNumber(clamping: version))
            settled += crowd.book.takeSettled().map(\.1.version)
        }
        #expect(crowd.book.propagations(of: .demo).map(\.version.rawValue) == (9...40).reversed())
        crowd.fetch("a", 40)
        crowd.wait(16_000)
        settled += crowd.book.takeSettled().map(\.1.version)
        #expect(Set(settled.map(\.rawValue)) == Set(1...40))
        #expect(crowd.book.takeSettled().isEmpty)
    }

    @Test func aVersionOfBeforeIsCountedFromReconnectsWithoutTimes() {
        let crowd = Crowd()
        let board = crowd.hub.board
        crowd.book.resume(.make(7), on: [board.push])
        crowd.join("a", have: 7)
        crowd.join("b", have: 6)
        crowd.fetch("b", 7)
        crowd.join("c", have: 6)
        let found = crowd.book.propagation(of: .demo)!
        #expect(found.isPartial && found.version == 7)
        #expect(found.clients.audience == 3 && found.clients.fetched == 2)
        #expect(found.fetched.t50 == nil && found.fetched.last == nil && found.fetched.counts.isEmpty)
    }

    @Test func aClientThatCameBackAndSaidNothingIsUnknownAndNotBehind() {
        let crowd = Crowd()
        crowd.book.resume(.make(7), on: [crowd.hub.board.push])
        #expect(crowd.book.propagation(of: .demo)?.state == .spreading, "no client is back yet")
        crowd.join("silent")
        crowd.join("old", have: 6)
        crowd.join("new", have: 7)
        let found = crowd.book.propagation(of: .demo)!
        #expect(found.clients.unknown == 1 && found.clients.behind == 1 && found.clients.fetched == 1)
        #expect(found.state == .spreading)
        crowd.fetch("old", 7)
        #expect(crowd.book.propagation(of: .demo)?.state == .spreading, "of one nothing is known")
        crowd.fetch("silent", 7)
        #expect(crowd.clients().unknown == 0 && crowd.book.propagation(of: .demo)?.state == .converged)
    }

    @Test func theEndOfTheProcessWritesWhatIsStillSpreading() {
        let crowd = Crowd()
        crowd.join("a")
        for version in 1...3 as ClosedRange<Int64> { crowd.publish(VersionNumber(clamping: version)) }
        crowd.fetch("a", 1)
        #expect(crowd.book.takeSettled().map(\.1.state) == [.superseded, .superseded])
        let rows = crowd.book.takeSettled(isEnding: true)
        #expect(rows.map(\.1.version.rawValue) == [3])
        #expect(rows.map(\.1.state) == [.spreading])
        crowd.wait(60_000)
        #expect(crowd.book.takeSettled(isEnding: true).isEmpty, "clients that the end throws out change nothing")
    }

    /// The process may be killed at any time: what is in the store then is all that is known later.
    @Test func aVersionThatANewerOneFollowedIsWrittenAtOnceAndAgainWhenItsCountsChange() {
        let crowd = Crowd()
        for name in ["a", "goes"] { crowd.join(name) }
        crowd.publish(1)
        crowd.publish(2)
        #expect(crowd.book.takeSettled().map(\.1.state) == [.superseded])
        #expect(crowd.book.takeSettled().isEmpty)
        crowd.leave("goes")
        crowd.wait(16_000)
        #expect(crowd.book.takeSettled().map(\.1.clients.left) == [1])
        crowd.fetch("a", 2)
        let rows = crowd.book.takeSettled()
        #expect(rows.map(\.1.version) == [1, 2] && rows.map(\.1.clients.fetched) == [1, 1])
        #expect(rows.map(\.1.state) == [.superseded, .left])
        crowd.wait(3_600_000)
        #expect(crowd.book.takeSettled().isEmpty, "nothing changed since")
    }

    @Test func aSupersededVersionStaysSoWhenThoseWithoutItLeave() {
        let crowd = Crowd()
        for name in ["a", "b"] { crowd.join(name) }
        crowd.publish(1)
        crowd.fetch("a", 1)
        crowd.publish(2)
        #expect(crowd.book.propagation(of: .demo, 1)?.state == .superseded)
        crowd.leave("b")
        crowd.wait(60_000)
        let left = crowd.book.propagation(of: .demo, 1)
        #expect(left?.clients.awaited == left?.clients.fetched && left?.state == .superseded)
    }

    @Test func aVersionThatAllHadBeforeTheNextOneStaysConverged() {
        let crowd = Crowd()
        crowd.join("a")
        crowd.publish(1)
        crowd.fetch("a", 1)
        crowd.publish(2)
        #expect(crowd.book.propagation(of: .demo, 1)?.state == .converged)
    }

    @Test func whatTheProcessBeforeWroteIsNotOverwrittenByLess() {
        let crowd = Crowd()
        crowd.book.resume(.make(7), on: [crowd.hub.board.push], isStored: true)
        crowd.join("a")
        crowd.wait(16_000)
        #expect(crowd.book.takeSettled(isEnding: true).isEmpty)
    }

    @Test func aVersionWithoutFetchesIsNotConverged() throws {
        let crowd = Crowd()
        crowd.publish(1)
        #expect(crowd.book.propagation(of: .demo)?.state == .noAudience)
        for name in ["a", "b"] { crowd.join(name, have: 1) }
        crowd.publish(2)
        for name in ["a", "b"] { crowd.leave(name) }
        crowd.wait(11_000)
        let rolloutStatus = try #require(crowd.book.propagation(of: .demo))
        #expect(rolloutStatus.state == .left && rolloutStatus.clients.left == 2 && rolloutStatus.clients.lost == 2)
        #expect(rolloutStatus.record["s"] == "CONVERGED", "daemons of before read it")
        let stored = RolloutStatus(record: rolloutStatus.record, of: 2)
        #expect(stored?.state == .left && stored?.clients == rolloutStatus.clients)
    }

    @Test func clientsThatLeaveMakeNoTimeWithoutAFetch() {
        let crowd = Crowd()
        for name in ["a", "b"] { crowd.join(name) }
        crowd.leave("b")
        crowd.wait(2000)
        crowd.publish(1)
        crowd.wait(1000)
        crowd.fetch("a", 1)
        crowd.wait(60_000)
        let rolloutStatus = crowd.book.propagation(of: .demo)!
        #expect(rolloutStatus.state == .converged && rolloutStatus.fetched.t99 == 1_000_000_000)
    }

    @Test func aFailureInAnotherScopeIsNotCountedHere() throws {
        let crowd = Crowd()
        crowd.join("a")
        crowd.publish(1)
        let other = Scope.server
        crowd.book.resume(.make(1, scope: other), on: [crowd.hub.board.push])
        let arrival = ClientArrival(
            Crowd.client("b"), other, topics: [crowd.hub.board.push], isPoll: false, held: 0, head: 0)
        crowd.book.joined(arrival, address: (1, false))
        try crowd.book.claimed(
            Crowd.client("b"), other, ClientReport(.failed, 1, error: "no"), address: (1, false))
        #expect(crowd.clients().failed == 0 && crowd.book.propagation(of: other)?.clients.failed == 1)
    }

    @Test(arguments: [true, false]) func aFetchThatNamesOnlyTheAppLeavesTheSDKOfTheStream(keepsNames: Bool) throws {
        var limits = RolloutTracker.Limits()
        limits.keepsNames = keepsNames
        let crowd = Crowd(limits)
        crowd.join("a")
        let named = try #require(ClientIdentity("a", app: "other", sdk: "", active: nil))
        crowd.book.fetched(named, .demo, 1, address: (1, false))
        crowd.publish(2)
        let found = crowd.book.laggards(of: .demo, nil, stage: .fetched, limit: 10)?.clients.first
        #expect(found?.app == (keepsNames ? "other" : "") && found?.sdk == (keepsNames ? "1.0" : ""))
    }

    @Test func laggardsAreThoseOfTheAudienceThatAreBehind() {
        let crowd = Crowd()
        crowd.publish(1)
        for name in ["a", "b", "c"] { crowd.join(name, have: name == "c" ? nil : 1) }
        crowd.publish(2)
        crowd.fetch("a", 2)
        let found = crowd.book.laggards(of: .demo, nil, stage: .fetched, limit: 10)
        #expect(found?.total == 2 && Set(found?.clients.compactMap(\.id) ?? []) == ["b", "c"])
        // It never said what it has, which is something older than 2 in any case.
        #expect(found?.clients.first { $0.id == "c" }?.state == .behind)
        #expect(crowd.clients().behind == 2 && crowd.clients().unknown == 0)
        let groups = crowd.book.laggards(of: .demo, 2, stage: .fetched, by: .held) { "\($0)" }?.groups
        #expect(groups?.counts.map(\.key).sorted() == ["0", "1"])
        #expect(crowd.book.client(Crowd.client("a"), in: .demo, nil)?.state == .current)
        #expect(crowd.book.audience(of: .demo, topics: nil).clients == 3)
    }

    @Test func withoutNamesNoClientIsNamed() {
        var limits = RolloutTracker.Limits()
        limits.keepsNames = false
        let crowd = Crowd(limits)
        crowd.join("a")
        crowd.publish(1)
        let found = crowd.book.laggards(of: .demo, nil, stage: .fetched, limit: 10)?.clients.first
        #expect(found != nil && found?.id == nil && found?.address == nil && found?.app == "")
    }

    @Test func streamsThatEndUntoldLeaveAndTheOthersCount() {
        let crowd = Crowd()
        let loops = [crowd.book.addLoop(), crowd.book.addLoop()]
        crowd.publish(1)
        var first = StreamCounts()
        (first.streams, first.backlogged) = (100, 10)
        crowd.book.note(first, of: loops[0], in: .demo, 1)
        #expect(crowd.book.propagation(of: .demo)?.sent.t50 == nil, "the other loop has not told yet")
        crowd.wait(5)
        crowd.book.note(StreamCounts(), of: loops[1], in: .demo, 1)
        let sent = crowd.book.propagation(of: .demo)!
        #expect(sent.sent.t50 == 5_000_000 && sent.sent.t95 == nil && sent.state == .spreading)
        crowd.wait(5)
        (first.backlogged, first.left) = (0, 10)
        crowd.book.note(first, of: loops[0], in: .demo, 1)
        let done = crowd.book.propagation(of: .demo)!
        #expect(done.streams.told == 90 && done.sent.t99 == 5_000_000 && done.state == .converged)
    }

    @Test func aRowOfTheStoreIsShortAndSaysTheSame() throws {
        let crowd = Crowd()
        for number in 0..<100 { crowd.join("c\(number)") }
        crowd.publish(1)
        crowd.wait(3_599_000)
        for number in 0..<99 { crowd.fetch("c\(number)", 1) }
        let rolloutStatus = crowd.book.propagation(of: .demo)!
        let record = try JSONValue.parse(rolloutStatus.record.text().utf8)
        #expect(record.text().utf8.count <= 300)
        let stored = try #require(RolloutStatus(record: record, of: 1))
        #expect(
            stored.clients == rolloutStatus.clients && stored.state == rolloutStatus.state
                && stored.announceTime == rolloutStatus.announceTime)
        #expect(stored.fetched.t99 == rolloutStatus.fetched.t99 && !stored.isFromMemory)
        #expect(RolloutStatus(record: ["at": 1], of: 1) == nil)
    }

    @Test func aClientWithHundredsOfStreamsStaysPresentUntilTheLastOneEnds() {
        let crowd = Crowd()
        for _ in 0..<300 { crowd.join("shared") }
        for _ in 0..<260 { crowd.leave("shared") }
        crowd.wait(11_000)
        crowd.publish(1)
        #expect(crowd.clients().audience == 1)
        for _ in 0..<40 { crowd.leave("shared") }
        crowd.wait(11_000)
        crowd.publish(2)
        #expect(crowd.clients(2).audience == 0)
    }
}
