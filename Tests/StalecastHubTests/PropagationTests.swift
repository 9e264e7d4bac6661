import StalecastHub
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

/// A hub, a clock that is moved by hand, and clients by their names.
private final class Crowd: Sendable {
    let hub: Hub

    init(_ limits: RolloutTracker.Limits = .init(), bindings: [TopicBinding] = TopicBoard.bindings) {
        let box = ClockBox()
        self.box = box
        hub = Hub(
            board: .make(bindings: bindings),
            propagation: RolloutTracker(limits, clock: { box.now }, wall: { Timestamp(microseconds: 5) }))
    }

    private let box: ClockBox

    final class ClockBox: Sendable {
        private let time = Mutex<UInt64>(1_000_000_000)
        var now: UInt64 { time.withLock { $0 } }
        func move(_ milliseconds: UInt64) { time.withLock { $0 += milliseconds * 1_000_000 } }
    }

    var book: RolloutTracker { hub.propagation }

    func wait(_ milliseconds: UInt64) { box.move(milliseconds) }

    func publish(_ version: VersionNumber, keys: [String]? = ["welcome"]) {
        hub.announce(.make(version, keys: keys), at: 0)
    }

    static func client(_ name: String, active: VersionNumber? = nil) -> ClientIdentity {
        ClientIdentity(name, app: "app", sdk: "1.0", active: active)!
    }

    func join(
        _ name: String, topic: Topic.Index? = nil, have: VersionNumber? = nil, active: VersionNumber? = nil,
        address: UInt64 = 1, isLimited: Bool = false
    ) {
        let board = hub.board
        _ = book.join(
            Self.client(name, active: active), of: [topic ?? board.push], on: board, from: ResumePoint(have: have),
            isPoll: false, address: (address, isLimited))
    }

    func leave(_ name: String) { book.left([Self.client(name).key(in: .demo)], isPoll: false) }

    func fetch(_ name: String, _ version: VersionNumber, active: VersionNumber? = nil) {
        book.fetched(Self.client(name, active: active), .demo, version, address: (1, false))
    }

    func claim(_ name: String, _ claim: ClientReport, address: UInt64 = 1) throws(ClientReport.Refusal) {
        try book.claimed(Self.client(name), .demo, claim, address: (address, true))
    }

    func clients(_ version: VersionNumber? = nil) -> RolloutStatus.Clients {
        book.propagation(of: .demo, version)?.clients ?? .init()
    }
}

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

    @Test func whoIsGoneForTenSecondsLeavesTheDenominatorAndWhoComesBackDoesNot() {
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
        crowd.fetch("goes", 1)
        #expect(crowd.clients().left == 1 && crowd.clients().fetched == 1, "who left belongs to it no more")
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
        #expect(crowd.book.propagation(of: .demo, 1)?.state == .converged)
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
        #expect(crowd.book.propagation(of: .demo)?.fetched.t99 == nil, "98 of 99 is less than 99 %")
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
        #expect(crowd.clients(2).fetched == 0, "nobody has what does not exist yet")
        try crowd.claim("c", ClientReport(.active, 1))
        #expect(crowd.clients(1).failed == 0)
    }

    @Test func strangersAndFloodsOfReportsCountForNothing() {
        let crowd = Crowd()
        crowd.join("a")
        crowd.publish(1)
        #expect(throws: ClientReport.Refusal.stranger) { try crowd.claim("nobody", ClientReport(.active, 1)) }
        var refused = 0
        for _ in 0..<500 {
            do throws(ClientReport.Refusal) { try crowd.claim("a", ClientReport(.active, 1)) } catch {
                if error == .budget { refused += 1 }
            }
        }
        #expect(refused == 451, "50 a second of one address")
        for address in 2..<100_000 as Range<UInt64> {
            try? crowd.claim("a", ClientReport(.active, 1), address: address)  // refused from the 2,001st on
        }
        #expect(crowd.book.claims.counted[.active] == 1999)
        crowd.wait(60 * 60 * 1000)
        crowd.leave("a")
        crowd.wait(61 * 60 * 1000)
        #expect(throws: ClientReport.Refusal.stranger) { try crowd.claim("a", ClientReport(.active, 1)) }
    }

    @Test func aFloodOfIDsOfOneAddressIsLeftUncounted() {
        let crowd = Crowd()
        for number in 0..<5000 { crowd.join("c\(number)", address: 7, isLimited: true) }
        #expect(crowd.book.figures.known == 1024)
        crowd.wait(61_000)
        crowd.join("later", address: 7, isLimited: true)
        #expect(crowd.book.figures.known == 1025)
    }

    /// Four standard errors of a binomial, and the same clients all the way.
    @Test func aboveTheCapASampleTellsTheShares() {
        var limits = RolloutTracker.Limits()
        limits.clients = 1024
        let crowd = Crowd(limits)
        for number in 0..<20_000 { crowd.join("c\(number)") }
        crowd.publish(1)
        for number in 0..<20_000 where number % 4 != 0 { crowd.fetch("c\(number)", 1) }
        let clients = crowd.clients()
        let counted = Double(clients.audience / clients.weight)
        #expect(clients.weight > 1 && counted <= 1024 && counted > 400)
        #expect(abs(Double(clients.audience) - 20_000) < 4 * (20_000 * Double(clients.weight)).squareRoot())
        let share = Double(clients.fetched) / Double(clients.awaited)
        #expect(abs(share - 0.75) < 4 * (0.75 * 0.25 / counted).squareRoot(), "\(share)")
        #expect(clients.error > 0.005 && clients.error < 0.03)
        for number in 0..<20_000 where number % 4 == 0 { crowd.fetch("c\(number)", 1) }
        #expect(crowd.clients().behind == 0 && crowd.book.propagation(of: .demo)?.state == .converged)
    }

    @Test func growingIntoASampleCountsWhatIsUnderWayAgain() {
        var limits = RolloutTracker.Limits()
        limits.clients = 1024
        let crowd = Crowd(limits)
        for number in 0..<1000 { crowd.join("c\(number)") }
        crowd.publish(1)
        for number in 0..<500 { crowd.fetch("c\(number)", 1) }
        for number in 0..<10_000 { crowd.join("later\(number)") }
        let clients = crowd.clients()
        let counted = Double(clients.audience) / Double(clients.weight)
        #expect(abs(Double(clients.fetched) / Double(clients.awaited) - 0.5) < 4 * (0.25 / counted).squareRoot())
        for number in 500..<1000 { crowd.fetch("c\(number)", 1) }
        #expect(crowd.clients().behind == 0)
    }

    @Test func aSampleGrowsAgainWhenTheFloodIsForgotten() {
        var limits = RolloutTracker.Limits()
        limits.clients = 1024
        let crowd = Crowd(limits)
        crowd.publish(1)
        for number in 0..<6000 { crowd.fetch("once\(number)", 1) }
        #expect(crowd.book.figures.weight == 8)
        // They are kept for 25 h, and each look after that takes one step.
        for _ in 0..<4 {
            crowd.wait(26 * 3600 * 1000)
            _ = crowd.book.takeSettled()
        }
        #expect(crowd.book.figures.weight == 1 && crowd.book.figures.known == 0)
        for number in 0..<21 { crowd.join("kiosk\(number)") }
        crowd.publish(2)
        #expect(crowd.clients().audience == 21)
    }

    @Test func clientsOfOneAddressTakeOnlyAPartOfTheRoomForFailures() {
        let crowd = Crowd()
        for number in 0..<300 { crowd.join("c\(number)") }
        crowd.publish(1)
        func fail(_ numbers: Range<Int>, address: UInt64) -> Int {
            numbers.count { number in
                // 50 reports in ten seconds are taken of one address.
                crowd.wait(1000)
                // A refusal is what is counted.
                return (try? crowd.claim("c\(number)", ClientReport(.failed, 1, error: "e\(number)"), address: address))
                    != nil
            }
        }
        #expect(fail(0..<290, address: 2) == 256)
        #expect(fail(0..<10, address: 2) == 10, "what is known is told anew")
        #expect(fail(290..<300, address: 3) == 10)
    }

    @Test func setsOfTopicsThatStrangersLeftBehindTakeNoRoom() throws {
        let bindings = try (0..<13).map {
            TopicBinding(name: try TopicName("t\($0)"), scopes: [.demo], keys: [try KeyPattern("k\($0)_*")])
        }
        let crowd = Crowd(bindings: bindings)
        let board = crowd.hub.board
        func join(_ name: String, _ set: Int) throws {
            let topics = try (0..<13).filter { set & 1 << $0 != 0 }
                .map { board.topics(try TopicName("t\($0)"), in: Scope.demo.project)[0] }
            _ = crowd.book.join(
                Crowd.client(name), of: topics, on: board, from: ResumePoint(), isPoll: false, address: (1, false))
        }
        for set in 1...4200 { try join("stranger\(set)", set) }
        try join("early", 1 << 12)
        for set in 1...4200 { crowd.leave("stranger\(set)") }
        crowd.wait(61_000)
        crowd.publish(1, keys: ["k0_x"])
        try join("late", 0x1FFF)
        crowd.publish(2, keys: ["k12_x"])
        #expect(crowd.clients(2).audience == 1, "the late one's set has room; of the early one's nothing was known")
        try join("early", 1 << 12)
        crowd.publish(3, keys: ["k12_x"])
        #expect(crowd.clients(3).audience == 2)
    }

    @Test func labelsOfStrangersTakeNobodysLabelAndNoRoomForEver() {
        let crowd = Crowd()
        crowd.join("a")
        for number in 0..<4200 {
            let stranger = ClientIdentity("s\(number)", app: "app\(number)")
            crowd.book.fetched(stranger, .demo, 1, address: (1, false))
        }
        let renewed = ClientIdentity("a", app: "app", sdk: "2.0")
        crowd.book.fetched(renewed, .demo, 1, address: (1, false))
        #expect(crowd.book.client(Crowd.client("a"), in: .demo, nil)?.app == "app")
        // The strangers are forgotten, and what they said with them.
        crowd.wait(26 * 3600 * 1000)
        _ = crowd.book.takeSettled()
        crowd.book.fetched(renewed, .demo, 1, address: (1, false))
        #expect(crowd.book.client(Crowd.client("a"), in: .demo, nil)?.sdk == "2.0")
        #expect(crowd.book.audience(of: .demo, topics: nil).sdks.counts.map(\.key) == ["2.0"])
    }

    @Test func thirtyTwoVersionsAreKeptAndEachEndsOnce() {
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
        #expect(settled.map(\.rawValue).sorted() == Array(1...40))
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
        #expect(crowd.book.propagation(of: .demo)?.state == .spreading, "nobody is back yet")
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
        #expect(crowd.book.takeSettled().isEmpty)
        let rows = crowd.book.takeSettled(isEnding: true)
        #expect(rows.map(\.1.version.rawValue) == [1, 2, 3])
        #expect(rows.map(\.1.state) == [.converged, .superseded, .spreading])
        crowd.wait(60_000)
        #expect(crowd.book.takeSettled(isEnding: true).isEmpty, "clients that the end throws out change nothing")
    }

    @Test func aVersionThatANewerOneFollowedIsWrittenSoonAndAgainWhenItEnds() {
        let crowd = Crowd()
        crowd.join("a")
        crowd.publish(1)
        crowd.publish(2)
        crowd.wait(16_000)
        #expect(crowd.book.takeSettled().map(\.1.state) == [.superseded])
        #expect(crowd.book.takeSettled().isEmpty)
        crowd.fetch("a", 2)
        #expect(crowd.book.takeSettled().map(\.1.state) == [.converged, .converged])
    }

    @Test func whatTheProcessBeforeWroteIsNotOverwrittenByLess() {
        let crowd = Crowd()
        crowd.book.resume(.make(7), on: [crowd.hub.board.push], isStored: true)
        crowd.join("a")
        crowd.wait(16_000)
        #expect(crowd.book.takeSettled(isEnding: true).isEmpty)
    }

    @Test func aVersionThatNobodyHasIsNotConverged() throws {
        let crowd = Crowd()
        crowd.publish(1)
        #expect(crowd.book.propagation(of: .demo)?.state == .noAudience)
        for name in ["a", "b"] { crowd.join(name, have: 1) }
        crowd.publish(2)
        for name in ["a", "b"] { crowd.leave(name) }
        crowd.wait(11_000)
        let rolloutStatus = try #require(crowd.book.propagation(of: .demo))
        #expect(rolloutStatus.state == .left && rolloutStatus.clients.left == 2)
        #expect(rolloutStatus.record["s"] == "CONVERGED", "daemons of before read it")
        #expect(RolloutStatus(record: rolloutStatus.record, of: 2)?.state == .left)
    }

    @Test func thoseThatLeaveMakeNoTimeAtWhichNobodyFetched() {
        let crowd = Crowd()
        for name in ["a", "b"] { crowd.join(name) }
        crowd.publish(1)
        crowd.wait(1000)
        crowd.fetch("a", 1)
        crowd.leave("b")
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
        crowd.book.joined(
            Crowd.client("b"), other, topics: [crowd.hub.board.push], isPoll: false, held: 0, head: 0,
            address: (1, false))
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
        #expect(found?.clients.first { $0.id == "c" }?.state == .unknown)
        let groups = crowd.book.laggards(of: .demo, 2, stage: .fetched, by: .held) { "\($0)" }?.groups
        #expect(groups?.counts.map(\.key).sorted() == ["0", "1"])
        #expect(crowd.book.client(Crowd.client("a"), in: .demo, nil)?.state == .current)
        #expect(crowd.book.audience(of: .demo, topics: nil).clients == 3)
    }

    @Test func withoutNamesNobodyIsNamed() {
        var limits = RolloutTracker.Limits()
        limits.keepsNames = false
        let crowd = Crowd(limits)
        crowd.join("a")
        crowd.publish(1)
        let found = crowd.book.laggards(of: .demo, nil, stage: .fetched, limit: 10)?.clients.first
        #expect(found != nil && found?.id == nil && found?.address == nil && found?.app == "")
    }

    @Test func theTableOfTheCapTakesLessThanFourMegabytes() {
        var limits = RolloutTracker.Limits()
        limits.keepsNames = false
        let crowd = Crowd(limits)
        for number in 0..<65_536 { crowd.join("c\(number)") }
        #expect(crowd.book.figures.known == 65_536 && crowd.book.figures.weight == 1)
        #expect(crowd.book.figures.byteCount <= 4_000_000)
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

    @Test func aMessageToManyAsksForASampleOfReports() {
        let crowd = Crowd()
        let ratios = Mutex<[Double]>([])
        _ = crowd.hub.attach { event in
            guard case .announcement(let announcement) = event else { return }
            ratios.withLock { $0.append(announcement.encodedMessages[0].encodedMessage.message.reportRatio) }
        }
        for number in 0..<1000 { crowd.join("c\(number)") }
        crowd.publish(1)
        for number in 1000..<4000 { crowd.join("c\(number)") }
        crowd.publish(2)
        #expect(ratios.withLock { $0 } == [1, 0.25])
        #expect(crowd.hub.board[crowd.hub.board.push].encodedMessage?.message.json["reportRatio"] == .number("0.25"))
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
