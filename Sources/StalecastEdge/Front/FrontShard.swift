import CLinux
import NIOCore
import StalecastHTTP
import StalecastHub
import StalecastWire
import Synchronization

/// The subscribers the Front itself holds on one event loop: the subscriber protocol's second implementation, over
/// NIO channels, for systems without epoll and for connections the engine cannot own.
///
/// `@unchecked Sendable`: all state but `inbox`, `published` and `turnedAt` is touched on `loop` only.
final class FrontShard: @unchecked Sendable {
    let loop: any EventLoop
    let hub: Hub
    let served: ServedTemplates
    private let published = Mutex(EdgeTally())
    private let inbox = Mutex<[Hub.Event]>([])
    private let turnedAt = Atomic<UInt64>(stalecast_monotonic_ns())

    private(set) var board: TopicBoard
    var settings: EdgeSettings {
        didSet {
            policy = SubscriberPolicy(settings)
            maxConnections.store(settings.maxConnections, ordering: .relaxed)
        }
    }
    private let maxConnections: Atomic<Int>
    var cache = NoticeCache()
    var policy: SubscriberPolicy
    var date = HTTPDate()
    /// What its connections share below HTTP.
    let http: ConnectionLoop
    var tally = EdgeTally()
    private var members: [Topic.Index: [ObjectIdentifier: FrontSubscriber]] = [:]
    /// Connections of any kind on this loop, for the drain.
    var connections: [ObjectIdentifier: FrontConnection] = [:]
    /// When a running drain is over; nil while there is none.
    private var drainEnd: ContinuousClock.Instant?
    var isDraining: Bool { drainEnd != nil }

    init(loop: any EventLoop, hub: Hub, served: ServedTemplates, settings: EdgeSettings) {
        self.loop = loop
        http = ConnectionLoop(loop)
        self.hub = hub
        self.served = served
        self.settings = settings
        policy = SubscriberPolicy(settings)
        maxConnections = Atomic(settings.maxConnections)
        board = hub.board
    }

    /// Joins the hub and starts the loop's watch.
    func attach() -> EventLoopFuture<Void> {
        loop.submit { [self] in
            board = hub.attach { [self] event in post(event) }
            loop.scheduleRepeatedTask(initialDelay: .zero, delay: .milliseconds(250)) { [self] _ in
                let now = stalecast_monotonic_ns()
                turnedAt.store(now, ordering: .relaxed)
                if hub.countsSubscribers { hub.count(subscribersByScope(), of: self) }
                publish()
            }
        }
    }

    var router: FrontRouter { FrontRouter(board: board, settings: settings, served: served) }

    var lastTally: EdgeTally { published.withLock { $0 } }
    /// The cap as of the last settings; for the listener, which may be on another loop.
    var lastMaxConnections: Int { maxConnections.load(ordering: .relaxed) }
    var lastTurn: UInt64 { turnedAt.load(ordering: .relaxed) }

    private func publish() { published.withLock { $0 = tally } }

    // MARK: Membership

    func join(_ subscriber: FrontSubscriber) {
        for topic in subscriber.topics { members[topic, default: [:]][ObjectIdentifier(subscriber)] = subscriber }
        if subscriber.isPoll { tally.polls += 1 } else { tally.streams += 1 }
        publish()
    }

    func leave(_ subscriber: FrontSubscriber, _ reason: DropReason?) {
        for topic in subscriber.topics { members[topic]?[ObjectIdentifier(subscriber)] = nil }
        if subscriber.isPoll { tally.polls -= 1 } else { tally.streams -= 1 }
        if let reason { tally.drops[reason, default: 0] += 1 }
        publish()
    }

    private func subscribers(of topics: some Sequence<Topic.Index>) -> [ObjectIdentifier: FrontSubscriber] {
        var union: [ObjectIdentifier: FrontSubscriber] = [:]
        for topic in topics { union.merge(members[topic] ?? [:]) { first, _ in first } }
        return union
    }

    func presence() -> Presence {
        var presence = Presence()
        for (topic, subscribers) in members {
            for subscriber in subscribers.values where subscriber.isFirst(topic, of: board) {
                presence.add(board[topic].name, in: board[topic].scope.project, subscriber.transport)
            }
        }
        return presence
    }

    private func subscribersByScope() -> [Scope: Int] {
        var scopes: [Scope: Set<ObjectIdentifier>] = [:]
        for (topic, subscribers) in members { scopes[board[topic].scope, default: []].formUnion(subscribers.keys) }
        return scopes.mapValues(\.count)
    }

    // MARK: Events

    /// Queues an event; one visit of the loop takes all that are there.
    private func post(_ event: Hub.Event) {
        let isFirst = inbox.withLock { inbox in
            inbox.append(event)
            return inbox.count == 1
        }
        if isFirst { loop.execute { self.takeInbox() } }
    }

    /// Announcements that came while the loop was busy are one walk: newest wins.
    private func takeInbox() {
        let events = inbox.withLock { inbox in
            defer { inbox = [] }
            return inbox
        }
        var run: [TopicBoard.Announcement] = []
        for event in events {
            if case .announcement(let announcement) = event {
                run.append(announcement)
                continue
            }
            if !run.isEmpty { broadcast(run) }
            run = []
            handle(event)
        }
        if !run.isEmpty { broadcast(run) }
        publish()
    }

    private func handle(_ event: Hub.Event) {
        switch event {
        case .announcement(let announcement): broadcast([announcement])
        case .data(let message): broadcast(message)
        case .rebound(let board): rebind(to: board)
        }
    }

    private func broadcast(_ run: [TopicBoard.Announcement]) {
        let batch = board.apply(run, cache: &cache)
        for topic in batch.skipped { tally.coalesced += members[topic]?.count ?? 0 }
        var polls: [ObjectIdentifier: FrontSubscriber] = [:]
        for announcement in batch.announcements {
            for (id, subscriber) in subscribers(of: announcement.notices.map(\.topic)) {
                if subscriber.isPoll {
                    polls[id] = subscriber
                    continue
                }
                let notices = announcement.notices.filter { subscriber.topics.contains($0.topic) }.map(\.notice)
                subscriber.offer(notices, through: announcement.change.sequence)
                let elapsed = stalecast_monotonic_ns() &- announcement.announcedAt
                tally.publishToWritten.record(seconds: Double(elapsed) / 1e9)
            }
        }
        for poll in polls.values { poll.answer(after: batch.before) }
    }

    private func broadcast(_ message: DataMessage) {
        for subscriber in subscribers(of: members.keys).values
        where subscriber.transport != .firebase && message.reaches(subscriber.topics, on: board) {
            subscriber.offer(message)
        }
    }

    private func rebind(to board: TopicBoard) {
        self.board.takeTopics(of: board)
        cache.removeAll()
        let retired = members.keys.filter { board[$0].isRetired }
        for subscriber in subscribers(of: retired).values { subscriber.end(.topicRetired) }
    }

    /// True when somebody may have been told of a version that this loop has not taken yet. It is queued on the loop
    /// when this returns: what the loop is given now runs after it.
    var isBehind: Bool {
        guard hub.newestSequence > board.headSequence else { return false }
        _ = hub.headSequence
        return true
    }

    // MARK: Drain

    func drain(over milliseconds: Int) {
        drainEnd = ContinuousClock.now + .milliseconds(milliseconds + SubscriberPolicy.drainGraceMs)
        for connection in connections.values {
            guard connection.isHolding else {
                connection.close()
                continue
            }
            let wait = policy.drainWaitMs(over: milliseconds)
            loop.scheduleTask(in: .milliseconds(Int64(wait))) { connection.drain() }
        }
    }

    func closeAll() {
        for connection in connections.values { connection.close() }
    }

    /// What a stream ended by the drain is told: see the engine's.
    func drainRetryMs() -> Int {
        let left = drainEnd.map { max(0, ContinuousClock.now.duration(to: $0).milliseconds) } ?? 0
        return policy.drainRetryMs(left: left, connections: connections.count)
    }

    func retryMs() -> Int { policy.retryMs() }
}
