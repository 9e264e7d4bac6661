import StalecastHub
import StalecastWire
import Synchronization
import Testing

/// Sequences in the order they were announced.
final class Sequences: Sendable {
    private let sequences = Mutex<[CommitSequence]>([])

    func append(_ sequence: CommitSequence) { sequences.withLock { $0.append(sequence) } }
    var all: [CommitSequence] { sequences.withLock { $0 } }
}

@Suite struct HubTests {
    /// Passes a release's pause, which has a sequence in a cluster: a client may bring it from another node.
    @Test func aCommitThatNoClientIsToldOfIsNoCursorOfTheFuture() {
        let hub = Hub(board: .make([.make(1), .make(2)]))
        let heard = Sequences()
        let listener = Mutex(TopicBoard.make([.make(1), .make(2)]))
        _ = hub.attach { event in
            guard case .announcement(let announcement) = event else { return }
            heard.append(announcement.change.sequence)
            #expect(announcement.encodedMessages.isEmpty == (announcement.change.version == 2))
            listener.withLock { $0.apply(announcement) }
        }
        hub.pass(.make(2, sequence: 3), at: 0)
        #expect(heard.all == [3] && hub.headSequence == 3 && hub.newestSequence == 3)
        for board in [hub.board, listener.withLock({ $0 })] {
            let opening = board.opening(for: [board.push], from: board.cursor(3))
            #expect(opening.reset == nil && opening.messages.isEmpty)
            #expect(board.versions([board.push], board.cursor(1)) == [2])
        }
        #expect(hub.propagation.own(of: .demo, limit: 9) == nil, "nothing was announced")
        hub.announce(.make(3, sequence: 4), at: 0)
        #expect(hub.headSequence == 4)
    }

    @Test func everyShardSeesTheSameOrder() async {
        let hub = Hub(board: .make())
        let seen = Mutex<[[CommitSequence]]>([[], []])
        for shard in 0..<2 {
            _ = hub.attach { event in
                guard case .announcement(let announcement) = event else { return }
                seen.withLock { $0[shard].append(announcement.change.sequence) }
            }
        }
        for version in 1...100 { hub.announce(.make(VersionNumber(clamping: version)), at: 0) }
        #expect(seen.withLock { $0 } == [Array(1...100), Array(1...100)])
    }

    @Test func aShardThatAttachesMissesNothingAfterItsBoard() async throws {
        let hub = Hub(board: .make())
        let seen = Sequences()
        async let published: Void = {
            for version in 1...500 { hub.announce(.make(VersionNumber(clamping: version)), at: 0) }
        }()
        let board = hub.attach { event in
            guard case .announcement(let announcement) = event else { return }
            seen.append(announcement.change.sequence)
        }
        await published
        let first = board.headSequence + 1
        #expect(seen.all == (first <= 500 ? Array(first...500) : []))
    }

    /// A version that is committed and not yet visible is none of the hub's business, so no reload can show it.
    @Test func aReloadShowsWhatWasAnnouncedAndNothingElse() throws {
        let hub = Hub(board: .make())
        hub.announce(.make(1, keys: ["welcome"]), at: 0)
        hub.announce(.make(2, keys: ["pay_x"]), at: 0)
        let other = TopicBinding(name: try TopicName("other"), scopes: [.demo], keys: [try KeyPattern("wel*")])
        hub.rebind(TopicBoard.bindings + [other])
        let board = hub.board
        let latest = [.pushRC, .pay, other.name].map { board[board.topics($0, in: .demo)[0]].latest?.version }
        #expect(latest == [2, 2, 1] && board.headSequence == 2)
    }

    @Test func publishesWhileAReloadIsPreparedAreInItAndComeInOrder() async throws {
        let hub = Hub(board: .make())
        let board = Mutex(hub.attach { _ in })
        let shown = Mutex<[VersionNumber]>([])
        _ = hub.attach { event in
            switch event {
            case .announcement(let announcement): board.withLock { $0.apply(announcement) }
            case .rebound(let new), .split(_, let new): board.withLock { $0.takeTopics(of: new) }
            case .data: break
            }
            let version = board.withLock { $0.topics[0].latest?.version ?? 0 }
            shown.withLock { $0.append(version) }
        }
        async let published: Void = {
            for version in 1...500 as ClosedRange<VersionNumber> {
                hub.announce(.make(version, keys: ["pay_\(version)"]), at: 0)
            }
        }()
        for round in 0..<50 { hub.rebind(round % 2 == 0 ? [TopicBoard.bindings[0]] : TopicBoard.bindings) }
        await published
        let versions = shown.withLock { $0 }
        #expect(versions == versions.sorted() && versions.last == 500)
        let topics = board.withLock { $0.topics }
        #expect(topics.filter { !$0.isRetired && $0.scope == .demo }.allSatisfy { $0.latest?.version == 500 })
    }

    @Test func theHerdWindowIsOfTheSubscribersThatAllShardsCount() throws {
        let hub = Hub(board: .make(), herds: [.demo: HerdWindow(budget: 10)])
        let (one, other) = (Sequences(), Sequences())
        hub.count([.demo: 60, .server: 1000], of: one)
        hub.count([.demo: 30], of: other)
        hub.count([.demo: 40], of: other)
        hub.announce(.make(1), at: 0)
        hub.announce(.make(1, sequence: 2, scope: .server), at: 0)
        let windows = hub.board.topics.compactMap { $0.encodedMessage?.message.fetchWindowMs }
        #expect(hub.countsSubscribers && windows == [10_000, 0])
    }

    /// A node that was cut off returns with clients that the node which published did not count.
    @Test(arguments: [(0, 6_000), (9_000, 9_000)])
    func theHerdWindowSufficesForOnesOwnSubscribers(given: Int, asked: Int) {
        let hub = Hub(board: .make(), herds: [.demo: HerdWindow(budget: 10)])
        let shard = Sequences()
        hub.count([.demo: 60], of: shard)
        var change = TemplateChange.make(1)
        change.notes.fetchWindowMs = given
        hub.announce(change, at: 0)
        #expect(hub.board.topics[0].encodedMessage?.message.fetchWindowMs == asked)
    }

    @Test func aConditionReachesBySetOfTopics() throws {
        let board = TopicBoard.make()
        let condition = try TopicCondition(parsing: "'PUSH_RC' in topics && !('pay' in topics)")
        let message = DataMessage(target: .condition(condition), in: .demo, data: ["a": "b"])
        #expect(message.reaches([board.push], on: board))
        #expect(!message.reaches([board.push, board.payTopic], on: board))
        let foreign = DataMessage(target: .condition(condition), in: try ProjectID("other"), data: ["a": "b"])
        #expect(!foreign.reaches([board.push], on: board))
        #expect(String(decoding: message.json, as: UTF8.self) == #"{"a":"b"}"#)
    }

    @Test func theChunkOfANoticeIsOneWellFramedEvent() {
        var board = TopicBoard.make()
        board.take(.make(7))
        let encodedMessage = board[board.push].encodedMessage!
        let text = String(decoding: encodedMessage.chunk.buffer, as: UTF8.self)
        let size = Int(text.prefix { $0 != "\r\n" }, radix: 16)
        #expect(size == encodedMessage.chunk.chunkPayload.count)
        #expect(text.hasSuffix("\n\n\r\n"))
        let payload = String(decoding: encodedMessage.chunk.chunkPayload, as: UTF8.self)
        #expect(payload.hasPrefix("id: abcdefghijklmnopqrstuvwxyz.7\ndata: {\"CONFIG_STATE\":\"STALE\""))
        let plain = String(decoding: encodedMessage.chunkWithoutID.chunkPayload, as: UTF8.self)
        #expect(plain.hasPrefix("data: {"))
    }
}
