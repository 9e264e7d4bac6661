import StalecastHub
import StalecastWire
import StalecastTestSupport
import Testing

@Suite struct TopicBoardTests {
    @Test func aChangeIsAnnouncedOnEveryTopicOfItsScope() {
        var board = TopicBoard.make()
        let messages = board.take(.make(1, keys: ["pay_limit"]))
        #expect(messages.map(\.topic) == [.pushRC, .pay])
        #expect(board.headSequence == 1)
    }

    @Test func aTopicWithKeysHearsOnlyOfMatchingChanges() {
        var board = TopicBoard.make()
        #expect(board.take(.make(1, keys: ["welcome"])).map(\.topic) == [.pushRC])
        #expect(board.take(.make(2, keys: ["a", "pay_x"])).map(\.topic) == [.pushRC, .pay])
        #expect(board.take(.make(3, keys: nil)).map(\.topic) == [.pushRC, .pay], "unknown keys may be any")
    }

    @Test func aKeyTopicsMessageNamesWhatChangedSinceItsOwnLastMessage() {
        var board = TopicBoard.make()
        board.take(.make(1, keys: ["pay_x"]))
        board.take(.make(2, keys: ["welcome"]))
        board.take(.make(3, keys: ["title"]))
        let message = board.take(.make(4, keys: ["pay_y"])).last
        #expect(message?.since == 1)
        #expect(message?.changedKeys == ["pay_y"], "names that its patterns do not match are none of its business")
        let behind = board.opening(for: [board.payTopic], from: board.cursor(0)).messages
        var cache = EncodedMessageCache()
        #expect(cache.encodedMessage(for: behind[0], on: board).message.changedKeys == ["pay_x", "pay_y"])
    }

    @Test func aRollbackToEqualContentIsAnnouncedToo() {
        var board = TopicBoard.make()
        board.take(.make(1))
        board.take(.make(2))
        let messages = board.take(.make(3, updateType: .rollback))
        #expect(messages.first?.change.version == 3)
        #expect(messages.first?.change.metadata.updateType == .rollback)
    }

    @Test func liveMessagesSayWhatTheyFollow() {
        var board = TopicBoard.make()
        #expect(board.take(.make(1)).first?.since == 0)
        #expect(board.take(.make(2)).first?.since == 1)
    }

    @Test func storedVersionsGiveEveryTopicItsLastChange() {
        let board = TopicBoard.make([
            .make(1, keys: ["pay_x"]), .make(2, keys: ["welcome"]), .make(1, sequence: 3, scope: .server),
        ])
        #expect(board[board.payTopic].latest?.version == 1)
        #expect([board.push, board.pushServer].map { board[$0].latest?.version } == [2, 1])
    }

    @Test func aKeyTopicWhoseLastChangeWasPurgedIsMadeToSpeakOnce() {
        let board = TopicBoard.make([.make(40, keys: ["welcome"]), .make(41, keys: ["welcome"])])
        #expect(board.versions([board.payTopic], board.cursor(12)) == [40])
        #expect(board.versions([board.payTopic], board.cursor(40)) == [])
    }

    @Test func reboundTopicsKeepTheirIndexAndLostOnesAreRetired() {
        let before = TopicBoard.make([.make(1, keys: ["pay_x"])])
        let other = TopicBinding(name: try! TopicName("other"), scopes: [.demo])
        let hub = Hub(board: before)
        hub.rebind([other, TopicBoard.bindings[0]])
        let board = hub.board
        #expect(board.push == before.push)
        #expect(board.topics(.pay, in: .demo) == [])
        #expect(Set(hub.topics.map(\.name.description)) == ["PUSH_RC", "other"])
        #expect(board[board.topics(other.name, in: .demo)[0]].latest?.version == 1)
    }
}

/// Tests the meaning of names in a request.
@Suite struct SubscriptionTests {
    private static let other = Scope(project: try! ProjectID("other"), namespace: .firebase)
    private static let bindings = [
        TopicBinding(name: .pushRC, scopes: [.demo, other]), TopicBinding(name: .pay, scopes: [.demo, .server]),
    ]
    private static let projects: [String: ProjectID] = ["demo": .demo, "12": .demo, "other": other.project]
    private let several = TopicBoard(
        epoch: .test, head: 0, projects: projects, bindings: bindings,
        changes: [.make(1), .make(1, sequence: 2, scope: other)])

    private func scopes(
        _ names: [TopicName], _ project: String?, _ namespace: String? = nil
    ) throws(TopicBoard.TopicError) -> [Scope] {
        try several.topics(named: names, project: project, namespace: namespace).known.map { several[$0].scope }
    }

    @Test(arguments: ["demo", "12"])
    func aTopicIsHeardWithinAProject(project: String) throws {
        #expect(try scopes([.pushRC], project) == [.demo])
        #expect(try scopes([.pay], project) == [.demo, .server])
        #expect(try scopes([.pushRC], "other") == [Self.other])
    }

    @Test func aNamespaceNarrowsIt() throws {
        #expect(try scopes([.pay, .pushRC], "demo", "firebase") == [.demo, .demo])
        #expect(try scopes([.pay, .pushRC], "demo", "firebase-server") == [.server])
        #expect(throws: TopicBoard.TopicError.unknownTopics) { try scopes([.pay], "demo", "elsewhere") }
    }

    @Test func withSeveralProjectsOneMustBeSaid() {
        #expect(throws: TopicBoard.TopicError.projectIsMissing) { try scopes([.pushRC], nil) }
        #expect(throws: TopicBoard.TopicError.unknownProject) { try scopes([.pushRC], "secret") }
        #expect(throws: TopicBoard.TopicError.unknownTopics) { try scopes([.pay], "other") }
    }

    @Test func withOneProjectItIsThatOne() throws {
        #expect(try TopicBoard.make().topics(named: [.pay]).known.count == 1)
    }

    @Test func whatMeansNothingIsNamedBesideWhatThereIs() throws {
        let gone = try TopicName("gone")
        let found = try several.topics(named: [gone, .pushRC], project: "demo")
        #expect(found.known.count == 1 && found.unknown == [gone])
    }

    @Test func aSubscriberHearsNothingOfAnotherProject() throws {
        let topics = try several.topics(named: [.pushRC, .pay], project: "demo").known
        #expect(several.opening(for: topics, from: ResumePoint(have: 0)).messages.map(\.sequence) == [1, 1])
        let announcement = several.announcement(
            of: .make(2, sequence: 3, scope: Self.other), fetchWindowMs: 0, at: 0)
        #expect(announcement.encodedMessages.count == 1 && !topics.contains(announcement.encodedMessages[0].topic))
    }
}

@Suite struct OpeningTests {
    private func board() -> TopicBoard {
        var board = TopicBoard.make()
        for version in 1...5 { board.take(.make(VersionNumber(clamping: version), keys: ["k\(version)"])) }
        return board
    }

    @Test func aFreshSubscriberIsOwedNothing() {
        let opening = board().opening(for: [board().push], from: ResumePoint())
        #expect(opening.reset == nil)
        #expect(opening.messages.isEmpty)
        #expect(opening.head.sequence == 5)
    }

    @Test func anOlderCursorIsOwedOneCoalescedMessage() {
        let board = board()
        let opening = board.opening(for: [board.push], from: board.cursor(2))
        #expect(opening.messages.map(\.since) == [2])
        var cache = EncodedMessageCache()
        let message = cache.encodedMessage(for: opening.messages[0], on: board).message
        #expect(message.change.version == 5)
        #expect(message.changedKeys == ["k3", "k4", "k5"])
    }

    @Test func theCurrentCursorIsOwedNothing() {
        #expect(board().versions([board().push], board().cursor(5)) == [])
    }

    @Test(arguments: [
        ("nonsense", Opening.ResetReason.malformed), ("abcdefghijklmnopqrstuvwxyz.007", .malformed),
        ("zzzzzzzzzzzzzzzzzzzzzzzzzz.3", .unknownEpoch), ("abcdefghijklmnopqrstuvwxyz.6", .futureCursor),
    ])
    func aCursorThatSaysNothingResetsAndOwesTheNewest(text: String, reason: Opening.ResetReason) {
        let board = board()
        let opening = board.opening(for: [board.push], from: ResumePoint(cursor: text))
        #expect(opening.reset == reason)
        #expect(opening.messages.map(\.sequence) == [5])
        #expect(opening.messages.map(\.since) == [nil])
    }

    @Test func havingAnOlderVersionOwesTheNewest() {
        let board = board()
        #expect(board.versions([board.push], ResumePoint(have: 4)) == [5])
        #expect(board.versions([board.push], ResumePoint(have: 5)) == [])
    }

    @Test func severalTopicsAreOwedInCursorOrder() {
        var board = TopicBoard.make()
        board.take(.make(1, keys: ["pay_x"]))
        board.take(.make(2, keys: ["welcome"]))
        board.take(.make(1, sequence: 3, scope: .server))
        let topics = [board.push, board.pushServer, board.payTopic]
        let debts = board.opening(for: topics, from: board.cursor(0)).messages
        #expect(debts.map(\.sequence) == [1, 2, 3])
        #expect(debts.map(\.topic) == [board.payTopic, board.push, board.pushServer])
    }

    @Test func equallyBehindSubscribersShareOneEncoding() {
        let board = board()
        let debt = board.opening(for: [board.push], from: board.cursor(2)).messages[0]
        var cache = EncodedMessageCache()
        #expect(cache.encodedMessage(for: debt, on: board) === cache.encodedMessage(for: debt, on: board))
    }

    /// Checks that what a subscriber is owed ends at the newest of each line, never repeats what it has, and is in
    /// order, for any announcements and any cursor.
    @Test(arguments: 0..<50)
    func whatIsOwedConvergesFromAnyCursor(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var board = TopicBoard.make()
        var versions: [Scope: VersionNumber] = [:]
        for sequence in 1...20 {
            let scope: Scope = Bool.random(using: &random) ? .demo : .server
            versions[scope] = versions[scope, default: 0] + 1
            let keys = [["pay_x"], ["welcome"], nil].randomElement(using: &random)!
            board.take(.make(versions[scope]!, sequence: CommitSequence(sequence), scope: scope, keys: keys))
        }
        for start in 0...20 as ClosedRange<CommitSequence> {
            let topics = [board.push, board.pushServer, board.payTopic]
            let debts = board.opening(for: topics, from: board.cursor(start)).messages
            #expect(debts.allSatisfy { $0.sequence > start })
            #expect(debts.map(\.sequence) == debts.map(\.sequence).sorted())
            #expect(debts.count == topics.count { (board[$0].latest?.sequence ?? 0) > start })
        }
    }
}
