import StalecastHub
import StalecastWire
import StalecastTestSupport
import Testing

@Suite struct AnnouncementBatchTests {
    private func announcements(_ changes: [TemplateChange]) -> [TopicBoard.Announcement] {
        var board = TopicBoard.make()
        return changes.map { change in
            let announcement = board.announcement(of: change, fetchWindowMs: 0, at: 0)
            board.apply(announcement)
            return announcement
        }
    }

    @Test func ofSeveralMessagesOfATopicTheLastIsLeftWithTheUnionOfChanges() {
        var board = TopicBoard.make()
        var cache = EncodedMessageCache()
        let run = announcements([.make(1, keys: ["a"]), .make(2, keys: ["b"]), .make(3, keys: ["c"])])
        let batch = board.apply(run, cache: &cache)
        let messages = batch.announcements.flatMap { $0.encodedMessages.map(\.encodedMessage.message) }
        #expect(messages.map(\.change.version) == [3])
        #expect(messages.map(\.since) == [0])
        #expect(messages.first?.changedKeys == ["a", "b", "c"])
        #expect(batch.skipped == [board.push, board.push])
        #expect(board.headSequence == 3)
    }

    @Test func differentScopesAndTopicsAreAllKeptInOrder() {
        var board = TopicBoard.make()
        var cache = EncodedMessageCache()
        let run = announcements([
            .make(1, keys: ["pay_x"]), .make(1, sequence: 2, scope: .server), .make(2, sequence: 3, keys: ["welcome"]),
        ])
        let batch = board.apply(run, cache: &cache)
        let kept = batch.announcements.flatMap { entry in
            entry.encodedMessages.map { (entry.change.sequence, $0.topic) }
        }
        #expect(kept.map(\.0) == [1, 2, 3])
        #expect(kept.map(\.1) == [board.payTopic, board.pushServer, board.push])
        #expect(batch.skipped == [board.push], "version 1 on PUSH_RC is replaced by version 2")
    }

    @Test func oneAnnouncementIsLeftAsItIs() {
        var board = TopicBoard.make()
        var cache = EncodedMessageCache()
        let run = announcements([.make(1)])
        let batch = board.apply(run, cache: &cache)
        #expect(batch.announcements[0].encodedMessages[0].encodedMessage === run[0].encodedMessages[0].encodedMessage)
        #expect(batch.skipped.isEmpty && batch.before == 0)
    }

    /// Checks that a subscriber that was current ends at the newest of each topic, in order, and nothing is counted
    /// neither as kept nor as skipped, for any run that came while the shard was busy.
    @Test(arguments: 0..<30)
    func everyMessageIsKeptOrSkippedAndTheNewestIsKept(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var versions: [Scope: VersionNumber] = [:]
        let changes = (1...12).map { sequence -> TemplateChange in
            let scope: Scope = Bool.random(using: &random) ? .demo : .server
            versions[scope] = versions[scope, default: 0] + 1
            let keys = [["pay_x"], ["welcome"]].randomElement(using: &random)!
            return .make(versions[scope]!, sequence: CommitSequence(sequence), scope: scope, keys: keys)
        }
        let run = announcements(changes)
        var board = TopicBoard.make()
        var cache = EncodedMessageCache()
        let batch = board.apply(run, cache: &cache)
        let kept = batch.announcements.flatMap(\.encodedMessages)
        #expect(kept.count + batch.skipped.count == run.flatMap(\.encodedMessages).count)
        #expect(batch.announcements.map(\.change.sequence) == batch.announcements.map(\.change.sequence).sorted())
        let newest = board.owed(to: [board.push, board.pushServer, board.payTopic], after: 0)
        #expect(Set(kept.map(\.encodedMessage.sequence)) == Set(newest.map(\.sequence)))
        #expect(kept.count == newest.count)
    }
}
