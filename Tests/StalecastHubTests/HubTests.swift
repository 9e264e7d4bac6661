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
    @Test func everyShardSeesTheSameOrder() async {
        let hub = Hub(board: .make())
        let seen = Mutex<[[CommitSequence]]>([[], []])
        for shard in 0..<2 {
            _ = hub.attach { event in
                guard case .announcement(let announcement) = event else { return }
                seen.withLock { $0[shard].append(announcement.change.sequence) }
            }
        }
        for version in 1...100 { hub.announce(.make(VersionNumber(version)), at: 0) }
        #expect(seen.withLock { $0 } == [Array(1...100), Array(1...100)])
    }

    @Test func aShardThatAttachesMissesNothingAfterItsBoard() async throws {
        let hub = Hub(board: .make())
        let seen = Sequences()
        async let published: Void = {
            for version in 1...500 { hub.announce(.make(VersionNumber(version)), at: 0) }
        }()
        let board = hub.attach { event in
            guard case .announcement(let announcement) = event else { return }
            seen.append(announcement.change.sequence)
        }
        await published
        let first = board.headSequence + 1
        #expect(seen.all == (first <= 500 ? Array(first...500) : []))
    }

    @Test func aReloadThatRacesWithAPublishIsToldToReadAgain() {
        let hub = Hub(board: .make())
        let head = hub.board.head
        hub.announce(.make(1), at: 0)
        #expect(!hub.rebind(TopicBoard.bindings, changes: [], readAt: head))
        #expect(hub.rebind(TopicBoard.bindings, changes: [.make(1)], readAt: hub.board.head))
    }

    @Test func aConditionReachesBySetOfTopics() throws {
        let board = TopicBoard.make()
        let condition = try TopicCondition(parsing: "'PUSH_RC' in topics && !('pay' in topics)")
        let message = DataMessage(target: .condition(condition), data: ["a": "b"])
        #expect(message.reaches([board.push], on: board))
        #expect(!message.reaches([board.push, board.payTopic], on: board))
        #expect(String(decoding: message.json, as: UTF8.self) == #"{"a":"b"}"#)
    }

    @Test func theChunkOfANoticeIsOneWellFramedEvent() {
        var board = TopicBoard.make()
        board.take(.make(7))
        let notice = board[board.push].lines[0].notice!
        let text = String(decoding: notice.chunk.buffer, as: UTF8.self)
        let size = Int(text.prefix { $0 != "\r\n" }, radix: 16)
        #expect(size == notice.chunk.chunkPayload.count)
        #expect(text.hasSuffix("\n\n\r\n"))
        let payload = String(decoding: notice.chunk.chunkPayload, as: UTF8.self)
        #expect(payload.hasPrefix("id: abcdefghijklmnopqrstuvwxyz.7\ndata: {\"CONFIG_STATE\":\"STALE\""))
        let plain = String(decoding: notice.chunkWithoutID.chunkPayload, as: UTF8.self)
        #expect(plain.hasPrefix("data: {"))
    }
}
