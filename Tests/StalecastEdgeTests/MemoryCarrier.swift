import CLinux
import StalecastEdge
import StalecastHub
import StalecastWire
import Synchronization

/// Carrier whose clients are texts and whose clock is moved by the test.
final class MemoryCarrier: Carrier {
    /// The other end of a stream or a poll.
    final class Client {
        private(set) var text = ""
        /// Bytes that its connection still takes.
        var room = Int.max
        var isDead = false
        /// Whether the peer has acknowledged all bytes; nil where that is not known.
        var hasAcknowledged: Bool?
        /// The subscriber is gone: it was ended, or answered.
        fileprivate(set) var isOver = false
        fileprivate(set) var reason: DropReason?
        fileprivate(set) var slot: Int32 = -1
        /// Versions in the order in which they were told.
        private(set) var versions: [Int] = []
        /// Length of the text, in bytes, up to the last of `versions`.
        private var read = 0

        fileprivate func receive(_ bytes: ArraySlice<UInt8>) {
            text += String(decoding: bytes, as: UTF8.self)
            // A version may come in pieces: what is behind its last quotation mark is looked at again.
            let parts = text.utf8.dropFirst(read).split(separator: UInt8(ascii: "\""), omittingEmptySubsequences: false)
            for (name, number) in zip(parts, parts.dropFirst(2).dropLast())
            where name.elementsEqual("latestTemplateVersionNumber".utf8) {
                guard let version = Int(Substring(number)) else { continue }
                versions.append(version)
                read = text.utf8.distance(from: text.startIndex, to: number.endIndex)
            }
        }
    }

    /// Events of the hub that were not taken yet.
    private final class Inbox: Sendable {
        let events = Mutex<[Hub.Event]>([])
    }

    let hub: Hub
    var audience: Audience
    private let inbox = Inbox()
    private var clients: [Int32: Client] = [:]
    private var now: Tick = 0
    private var newest: CommitSequence = 0

    init(
        herdBudget: Int = 0, topics: [TopicBinding] = LoneShard.both, _ change: (inout EdgeSettings) -> Void = { _ in }
    ) {
        let server = TopicBinding(name: try! TopicName("server"), scopes: [LiveEdge.other])
        let bindings = topics + [TopicBinding(invalidationsOf: LiveEdge.scope), server]
        hub = Hub(
            board: TopicBoard(epoch: .random(), head: 0, bindings: bindings, changes: []),
            herds: [LiveEdge.scope: HerdWindow(budget: herdBudget)])
        var settings = EdgeSettings()
        change(&settings)
        audience = Audience(hub.board, settings)
        attach { [inbox] event, _ in
            inbox.events.withLock { $0.append(event) }
            return true
        }
    }

    // MARK: What a test does

    func stream(_ query: String = "topic=PUSH_RC", kind: StreamRequest.Kind = .events) throws -> Client {
        var request = try StreamRequest(
            kind: kind, query: Array(query.utf8), headers: StreamHeaders(), maxTopics: 64)
        if kind == .invalidations { request.topics = [.ofScope(LiveEdge.scope)] }
        let topics = try audience.settings.admit(request, on: audience.board, counts: false)
        let client = Client()
        client.slot = audience.seat(0)
        clients[client.slot] = client
        open(client.slot, request, topics)
        releaseDoomed()
        return client
    }

    func firebase(_ query: String = "topic=x&have=0") throws -> Client { try stream(query, kind: .invalidations) }

    /// Announces the next version, and takes the announcement.
    func publish(
        _ type: UpdateType = .incremental, to stages: ReleaseAudience? = nil, in scope: Scope = LiveEdge.scope
    ) {
        announce(type, to: stages, in: scope)
        takeEvents()
    }

    func announce(
        _ type: UpdateType = .incremental, to stages: ReleaseAudience? = nil, in scope: Scope = LiveEdge.scope,
        keys: [String]? = nil
    ) {
        newest += 1
        var metadata = VersionMetadata(number: VersionNumber(clamping: Int(newest)), updateTime: .now())
        metadata.updateType = type
        let change = TemplateChange(
            scope: scope, sequence: newest, metadata: metadata, etag: "e", changedKeys: keys)
        hub.announce(change, to: stages, at: stalecast_monotonic_ns())
    }

    /// Takes what the hub said; announcements that follow each other are one.
    func takeEvents() {
        handle(
            inbox.events.withLock { events in
                defer { events = [] }
                return events
            })
    }

    /// Moves the clock.
    func pass(_ milliseconds: Int) {
        now += Tick(milliseconds / 100)
        advance(to: now)
    }

    /// Whether the client's connection takes all bytes again.
    func unblock(_ client: Client) {
        client.room = .max
        if clients[client.slot] === client { drainBacklog(client.slot) }
        releaseDoomed()
    }

    func hangUp(_ client: Client) {
        if clients[client.slot] === client { release(client.slot, .peerClosed) }
    }

    // MARK: Carrier

    var connectionCount: Int { clients.count }

    func hasAcknowledgedAll(_ index: Int32) -> Bool? { clients[index]?.hasAcknowledged }

    func send(_ bytes: ArraySlice<UInt8>, to index: Int32) -> Sent {
        guard let client = clients[index], !client.isDead else { return .gone }
        let taken = min(bytes.count, client.room)
        client.receive(bytes.prefix(taken))
        if client.room != .max { client.room -= taken }
        return taken == bytes.count ? .all : .part(taken)
    }

    func finish(_ index: Int32, with answer: [UInt8], keepAlive: Bool) {
        _ = send(answer[...], to: index)
        vacate(index, nil)
    }

    func release(_ index: Int32, _ reason: DropReason?) {
        guard clients[index] != nil else { return }
        leave(index, reason)
        vacate(index, reason)
    }

    private func vacate(_ index: Int32, _ reason: DropReason?) {
        let client = clients.removeValue(forKey: index)
        client?.isOver = true
        client?.reason = reason
        audience.slots.release(index)
    }
}
