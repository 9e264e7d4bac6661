import CLinux
import Glibc
import Logging
import StalecastEdge
import StalecastHub
import StalecastWire
import Synchronization
import Testing

/// One shard of the engine with its events given in the order a test needs; clients are socket pairs.
final class LoneShard {
    let hub: Hub
    let shard: Shard
    var ledger: AddressLedger { shard.context.ledger }

    init(_ bindings: [TopicBinding] = LoneShard.both, _ change: (inout EdgeSettings) -> Void = { _ in }) throws {
        hub = Hub(board: TopicBoard(epoch: .random(), head: 0, bindings: bindings, changes: []))
        var settings = EdgeSettings()
        change(&settings)
        shard = try Shard(
            number: 0, listener: -1, EdgeContext(hub: hub, logger: Logger(label: "edge")), settings: settings,
            handOver: { close($0.fd) })
        shard.attach()
    }

    static let pay = TopicBinding(name: try! TopicName("pay"), scopes: [LiveEdge.scope])
    static let push = TopicBinding(name: .pushRC, scopes: [LiveEdge.scope])
    static let both = [push, pay]

    func board(_ bindings: [TopicBinding]) -> TopicBoard {
        TopicBoard(epoch: hub.board.epoch, head: hub.headSequence, bindings: bindings, changes: [])
    }

    /// Posts a request whose other end is returned.
    func adopt(_ query: String, kind: StreamRequest.Kind = .events) throws -> PairedClient {
        let request = try StreamRequest(kind: kind, query: Array(query.utf8), headers: StreamHeaders(), maxTopics: 64)
        let (client, fd) = PairedClient.make()
        _ = ledger.enter(0, caps: EdgeSettings().caps)
        shard.post(.adopt(Shard.Adoption(fd: fd, address: 0, request: request)))
        return client
    }

    func announce(_ version: VersionNumber) {
        let metadata = VersionMetadata(number: version, updateTime: .now())
        hub.announce(
            TemplateChange(
                scope: LiveEdge.scope, sequence: CommitSequence(version.rawValue), metadata: metadata, etag: "e",
                changedKeys: nil), at: stalecast_monotonic_ns())
    }

    /// Runs the shard to its end and returns the problems that a check found.
    func run() -> [String] {
        let found = Mutex<[String]>([])
        shard.post(.ask { shard in found.withLock { $0 = shard?.inconsistencies() ?? ["the shard has stopped"] } })
        shard.post(.stop)
        shard.run()
        return found.withLock { $0 }
    }
}

/// The client's end of a socket pair.
final class PairedClient {
    private let fd: Int32

    private init(_ fd: Int32) { self.fd = fd }
    deinit { Glibc.close(fd) }

    static func make() -> (PairedClient, server: Int32) {
        var pair: [Int32] = [0, 0]
        precondition(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &pair) == 0)
        return (PairedClient(pair[0]), pair[1])
    }

    func hangUp() { shutdown(fd, Int32(SHUT_RDWR)) }

    /// Everything the shard wrote; it must have closed its end.
    func text() -> String {
        var (bytes, buffer) = ([UInt8](), [UInt8](repeating: 0, count: 65_536))
        while case let count = recv(fd, &buffer, buffer.count, 0), count > 0 { bytes += buffer[..<count] }
        return String(decoding: bytes, as: UTF8.self)
    }
}

@Suite(.timeLimit(.minutes(5))) struct ShardTests {
    @Test func aRequestWhoseTopicWasTakenAwayMeanwhileIsAnswered() throws {
        let lone = try LoneShard()
        lone.shard.post(.hub(.rebound(lone.board([LoneShard.push]))))
        let client = try lone.adopt("topic=pay")
        #expect(lone.run() == [])
        #expect(client.text().hasPrefix("HTTP/1.1 404 "))
        #expect(lone.ledger.total == 0)
    }

    @Test func aRequestThatComesDuringADrainIsToldWhenToComeBack() throws {
        let lone = try LoneShard()
        lone.shard.post(.drain(milliseconds: 500) {})
        let (events, poll) = (try lone.adopt("topic=pay"), try lone.adopt("topic=pay", kind: .poll))
        #expect(lone.run() == [])
        let text = events.text()
        #expect(text.hasPrefix("HTTP/1.1 200 ") && text.contains("retry: ") && text.hasSuffix("0\r\n\r\n"))
        let refusal = poll.text()
        #expect(refusal.hasPrefix("HTTP/1.1 503 ") && refusal.contains("Retry-After: "))
    }

    /// The first one's write fails; its slot must stay its own until it is released, also when a reload ends streams.
    @Test func aStreamThatDiedBeforeAReloadEndsNoOther() throws {
        let lone = try LoneShard()
        let dead = try lone.adopt("topic=pay")
        dead.hangUp()
        lone.shard.post(.hub(.rebound(lone.board([LoneShard.push]))))
        let alive = try lone.adopt("topic=PUSH_RC")
        let counted = Mutex(Presence())
        lone.shard.post(
            .ask { shard in
                guard let audience = shard?.audience else { return }
                counted.withLock { $0 = audience.members.presence(on: audience.board) }
            })
        #expect(lone.run() == [])
        #expect(alive.text().contains("event: synced"))
        #expect(counted.withLock { $0.count(.pushRC, .sse) } == 1)
        #expect(lone.shard.lastTally.drops[.peerClosed] == 1 && lone.shard.lastTally.drops[.drain] == 1)
    }

    @Test func aShardWithoutSubscribersIsCountedBeforeItTakesAVersion() throws {
        let lone = try LoneShard()
        lone.announce(1)
        let seen = try #require(lone.hub.propagation.propagation(of: LiveEdge.scope))
        #expect(seen.state == .noAudience)
        let late = try lone.adopt("topic=pay&have=0")
        #expect(lone.run() == [])
        #expect(late.text().contains("\"latestTemplateVersionNumber\":\"1\""))
    }

    @Test func aDescriptorThatCannotBeWatchedIsLetGo() throws {
        let lone = try LoneShard()
        let request = try StreamRequest(
            kind: .poll, query: Array("topic=pay".utf8), headers: StreamHeaders(), maxTopics: 64)
        _ = lone.ledger.enter(0, caps: EdgeSettings().caps)
        // A plain file cannot be in an epoll. This one has no other descriptor in the process.
        var path = Array("/tmp/stalecast-plain-XXXXXX".utf8CString)
        let file = mkstemp(&path)
        unlink(path)
        var (before, after) = (stat(), stat())
        try #require(fstat(file, &before) == 0)
        lone.shard.post(.adopt(Shard.Adoption(fd: file, address: 0, request: request)))
        #expect(lone.run() == [])
        #expect(lone.ledger.total == 0 && lone.shard.lastTally.polls == 0)
        // Another test may have got the number since.
        #expect(fstat(file, &after) < 0 || (after.st_dev, after.st_ino) != (before.st_dev, before.st_ino))
    }

    /// Another shard may have told of version 2 already when this one takes the request.
    @Test(arguments: [StreamRequest.Kind.events, .poll])
    func aRequestIsAnsweredFromTheHubsHeadAndNotFromAShardThatIsBehind(kind: StreamRequest.Kind) throws {
        let lone = try LoneShard()
        lone.announce(1)
        let client = try lone.adopt("topic=PUSH_RC&have=1", kind: kind)
        lone.announce(2)
        #expect(lone.run() == [])
        #expect(client.text().contains(#""latestTemplateVersionNumber":"2","sinceTemplateVersionNumber":"1""#))
    }

    @Test func aCallerDoesNotWaitForEverOnAStoppedShard() throws {
        let lone = try LoneShard()
        #expect(lone.run() == [])
        let answers = Mutex(0)
        lone.shard.post(.ask { shard in answers.withLock { $0 += shard == nil ? 1 : 0 } })
        lone.shard.post(.drain(milliseconds: 10) { answers.withLock { $0 += 1 } })
        let late = try lone.adopt("topic=pay")
        #expect(answers.withLock { $0 } == 2 && lone.ledger.total == 0)
        #expect(late.text() == "")
    }
}
