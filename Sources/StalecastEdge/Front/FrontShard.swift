import CLinux
import NIOCore
import StalecastHTTP
import StalecastHub
import StalecastWire
import Synchronization

/// The subscribers the Front itself holds on one event loop: the subscriber protocol's second implementation, over
/// NIO channels, for connections the engine cannot own.
///
/// `@unchecked Sendable`: all state but `inbox`, `published` and `turnedAt` is touched on `loop` only.
final class FrontShard: @unchecked Sendable {
    let loop: any EventLoop
    let hub: Hub
    let served: ServedTemplates
    let freshness: (any FreshnessGate)?
    private let published = Mutex(EdgeTally())
    private let inbox = Mutex<[Hub.Event]>([])
    private let turnedAt = Atomic<UInt64>(stalecast_monotonic_ns())

    private(set) var board: TopicBoard
    var settings: EdgeSettings {
        didSet {
            policy = SubscriberPolicy(settings)
            maxConnections.store(settings.maxConnections, ordering: .relaxed)
            silence.store(settings.silence.milliseconds, ordering: .relaxed)
            if settings.mayRevoke(after: oldValue) { recheckAccess() }
        }
    }
    private let maxConnections: Atomic<Int>
    /// Silence in milliseconds.
    private let silence: Atomic<Int>
    var cache = EncodedMessageCache()
    var policy: SubscriberPolicy
    var date = HTTPDate()
    /// Limits and clocks that its connections share below HTTP.
    let http: ConnectionLoop
    var tally = EdgeTally()
    /// Number of the loop, as the engine's shards have.
    private var loopNumber = 0
    var rollouts = LoopRollouts()
    /// Subscribers that have not got all that was announced.
    var untold: [ObjectIdentifier: FrontSubscriber] = [:]
    private var members: [Topic.Index: [ObjectIdentifier: FrontSubscriber]] = [:]
    /// Walks that take their time.
    private var fanOuts: [Topic.Index: PacedFanOut<ObjectIdentifier>] = [:]
    private var fanOutTurn = 0
    var canaries = CanarySeats()
    /// Connections of any kind on this loop, for the drain.
    var connections: [ObjectIdentifier: FrontConnection] = [:]
    /// End of a running drain; nil while there is none.
    private var drainEnd: ContinuousClock.Instant?
    var isDraining: Bool { drainEnd != nil }

    init(
        loop: any EventLoop, hub: Hub, served: ServedTemplates, settings: EdgeSettings,
        freshness: (any FreshnessGate)?
    ) {
        self.loop = loop
        self.freshness = freshness
        http = ConnectionLoop(loop)
        self.hub = hub
        self.served = served
        self.settings = settings
        policy = SubscriberPolicy(settings)
        maxConnections = Atomic(settings.maxConnections)
        silence = Atomic(settings.silence.milliseconds)
        board = hub.board
    }

    /// Joins the hub and starts the loop's watch.
    func attach() -> EventLoopFuture<Void> {
        loop.submit { [self] in
            loopNumber = hub.propagation.addLoop()
            board = hub.attach { [self] event in post(event) }
            loop.scheduleRepeatedTask(initialDelay: .zero, delay: .milliseconds(Int64(Self.turn * 1000))) { [self] _ in
                let now = stalecast_monotonic_ns()
                lateness = max(0, Double(now &- lastTurn) / 1e9 - Self.turn)
                turnedAt.store(now, ordering: .relaxed)
                if rollouts.hasNews { tellStreamCounts() }
                if hub.countsSubscribers {
                    let (all, firebase) = subscribersByScope()
                    hub.count(all, firebase: firebase, of: self)
                }
                publish()
            }
        }
    }

    /// Time between two turns, in seconds.
    private static let turn = 0.25
    /// Time that the last turn waited for the loop, in seconds: requests wait as long to be read.
    private var lateness = 0.0

    /// Seconds that a request took that was read then.
    func seconds(since time: UInt64) -> Double {
        lateness + Double(stalecast_monotonic_ns() &- time) / 1e9
    }

    var router: FrontRouter { FrontRouter(board: board, settings: settings, served: served) }

    var lastTally: EdgeTally { published.withLock { $0 } }
    /// The cap as of the last settings; for the listener, which may be on another loop.
    var lastMaxConnections: Int { maxConnections.load(ordering: .relaxed) }
    var lastSilence: Duration { .milliseconds(silence.load(ordering: .relaxed)) }
    var lastTurn: UInt64 { turnedAt.load(ordering: .relaxed) }

    private func publish() { published.withLock { $0 = tally } }

    /// A connection was let go by its own rules.
    func count(_ fault: ConnectionFault) {
        let reason: DropReason =
            switch fault {
            case .headTimeout: .headerTimeout
            case .bodyTimeout: .bodyTimeout
            case .idle: .idle
            case .writeStall: .writeStall
            case .badRequest: .badRequest
            }
        tally.drops[reason, default: 0] += 1
    }

    // MARK: Membership

    func join(_ subscriber: FrontSubscriber) {
        for topic in subscriber.topics { members[topic, default: [:]][ObjectIdentifier(subscriber)] = subscriber }
        if hub.releases.isOpen, !subscriber.isPoll {
            for seat in board.releaseSeats(of: subscriber.topics) { hub.releases.began(seat, [subscriber.address]) }
        }
        if subscriber.isPoll { tally.polls += 1 } else { tally.streams += 1 }
        publish()
    }

    func leave(_ subscriber: FrontSubscriber, _ reason: DropReason?) {
        if hub.releases.isOpen, !subscriber.isPoll, let reason {
            for seat in board.releaseSeats(of: subscriber.topics) {
                hub.releases.ended(seat, subscriber.address, reason.cause)
            }
        }
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
            for subscriber in subscribers.values {
                let isFirst = subscriber.isFirst(topic, of: board)
                presence.add(board[topic], subscriber.transport, members: 1, firsts: isFirst ? 1 : 0)
            }
        }
        return presence
    }

    func streamCounts(of scope: Scope) -> StreamCounts {
        if let told = rollouts.versions[scope]?.last?.streamCounts.told {
            rollouts.received(0, unknown: told, of: scope)
        }
        tellStreamCounts()
        if let streamCounts = rollouts.versions[scope]?.last?.streamCounts { return streamCounts }
        var streamCounts = StreamCounts()
        let topics = board.concerned(by: scope)
        streamCounts.streams = streams(on: topics)
        streamCounts.backlogged = untold.values.count { $0.hears(topics) }
        return streamCounts
    }

    /// Streams that hear one of these topics, each once.
    private func streams(on topics: [Topic.Index]) -> Int {
        topics.reduce(0) { sum, topic in
            sum
                + (members[topic] ?? [:]).values.count {
                    !$0.isPoll && $0.topics.first(where: topics.contains) == topic
                }
        }
    }

    private func tellStreamCounts() {
        rollouts.tell(hub.propagation, as: loopNumber) { version in
            untold.values.count { ($0.unsentSince ?? .max) <= version.sequence && $0.hears(version.topics) }
        }
    }

    private func subscribersByScope() -> (all: [Scope: Int], firebase: [Scope: Int]) {
        var scopes: [Scope: Set<ObjectIdentifier>] = [:]
        var firebase: [Scope: Int] = [:]
        for (topic, subscribers) in members {
            scopes[board[topic].scope, default: []].formUnion(subscribers.keys)
            if board[topic].isInvalidation { firebase[board[topic].scope, default: 0] += subscribers.count }
        }
        return (scopes.mapValues(\.count), firebase)
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

    /// Announcements that came while the loop was busy are one fan-out: newest wins.
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
        case .split(let scope, let board): split(scope, as: board)
        }
    }

    private func broadcast(_ run: [TopicBoard.Announcement]) {
        if hub.releases.isOpen { tellStages(run) }
        for announcement in run {
            rollouts.begin(announcement, audience: streams(on: announcement.encodedMessages.map(\.topic)))
        }
        let batch = board.apply(run, cache: &cache)
        for topic in batch.skipped { tally.coalesced += members[topic]?.count ?? 0 }
        var polls: [ObjectIdentifier: FrontSubscriber] = [:]
        for announcement in batch.announcements {
            let before = polls.count
            for (id, subscriber) in subscribers(of: announcement.encodedMessages.map(\.topic)) {
                if subscriber.isPoll {
                    polls[id] = subscriber
                    continue
                }
                if announcement.pacedOverMs > 0, subscriber.transport == .firebase {
                    subscriber.awaitTurn(announcement.change.sequence)
                    continue
                }
                let encodedMessages = announcement.encodedMessages.filter { subscriber.topics.contains($0.topic) }.map(
                    \.encodedMessage)
                subscriber.offer(encodedMessages, through: announcement.change.sequence)
                let elapsed = stalecast_monotonic_ns() &- announcement.announcedAt
                tally.publishToWritten.record(seconds: Double(elapsed) / 1e9)
            }
            for (topic, encodedMessage) in announcement.encodedMessages where encodedMessage.isInvalidation {
                beginFanOut(topic, announcement)
            }
            let elapsed = stalecast_monotonic_ns() &- announcement.announcedAt
            rollouts.fannedOut(announcement.change, nanoseconds: elapsed, polls: polls.count - before)
        }
        for poll in polls.values { poll.answer(after: batch.before) }
        if !canaries.isEmpty { canaries.tell(run) }
        tellStreamCounts()
    }

    // MARK: Paced fan-outs

    private static var nowMs: UInt64 { stalecast_monotonic_ns() / 1_000_000 }

    /// Begins a fan-out, as the engine's shards do: see ``PacedFanOut``.
    private func beginFanOut(_ topic: Topic.Index, _ announcement: TopicBoard.Announcement) {
        let rest = fanOuts.removeValue(forKey: topic)?.rest.filter { members[topic]?[$0] != nil } ?? []
        tally.coalesced += rest.count
        guard announcement.pacedOverMs > 0 else { return }
        let others = Set((members[topic] ?? [:]).keys).subtracting(rest)
        fanOutTurn += 1
        fanOuts[topic] = PacedFanOut(
            announcement, first: rest, others: Array(others), turn: fanOutTurn, at: Self.nowMs)
        if fanOuts.count == 1 { scheduleFanOuts() }
    }

    private func scheduleFanOuts() {
        loop.scheduleTask(in: .milliseconds(100)) { [self] in
            advanceFanOuts()
            if !fanOuts.isEmpty { scheduleFanOuts() }
        }
    }

    private func advanceFanOuts() {
        for topic in fanOuts.keys {
            guard let turn = fanOuts[topic]?.due(at: Self.nowMs), let announcement = fanOuts[topic]?.announcement else {
                continue
            }
            for id in turn { members[topic]?[id]?.takeTurn() }
            guard fanOuts[topic]?.isOver == true else { continue }
            fanOuts[topic] = nil
            rollouts.fannedOut(
                announcement.change, nanoseconds: stalecast_monotonic_ns() &- announcement.announcedAt)
        }
        publish()
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

    /// Moves a scope's members to the topics of their stages.
    private func split(_ scope: Scope, as board: TopicBoard) {
        let former = self.board.seats(of: scope)
        for topic in former {
            for id in fanOuts.removeValue(forKey: topic)?.rest ?? [] { members[topic]?[id]?.takeTurn() }
        }
        self.board.takeTopics(of: board)
        rollouts.split(scope, on: self.board)
        for (id, subscriber) in subscribers(of: former) {
            let topics = subscriber.topics
            guard subscriber.move(to: self.board.seats(of: topics, for: subscriber.clientKey)) else { continue }
            for topic in topics { members[topic]?[id] = nil }
            for topic in subscriber.topics { members[topic, default: [:]][id] = subscriber }
        }
        if hub.releases.isOpen { tellStreams(of: scope) }
    }

    /// Tells the gates of a release which streams are open, as the engine's shards do.
    private func tellStreams(of scope: Scope) {
        for subscriber in subscribers(of: board.seats(of: scope)).values where !subscriber.isPoll {
            for seat in board.releaseSeats(of: subscriber.topics) where seat.scope == scope {
                hub.releases.began(seat, [subscriber.address])
            }
        }
    }

    private func tellStages(_ run: [TopicBoard.Announcement]) {
        for announcement in run {
            let newly = board.newlyTold(announcement)
            for subscriber in subscribers(of: newly.map(\.topic)).values where !subscriber.isPoll {
                guard let seat = newly.first(where: { subscriber.topics.contains($0.topic) })?.seat else { continue }
                hub.releases.told(seat, [subscriber.address])
            }
        }
    }

    /// True when a client may have been told of a version that this loop has not taken yet. It is queued on the loop
    /// when this returns: what the loop is given now runs after it.
    var isBehind: Bool {
        guard hub.newestSequence > board.headSequence else { return false }
        _ = hub.headSequence
        return true
    }

    /// Ends whom a change of principals leaves without a grant.
    func recheckAccess() {
        for subscriber in subscribers(of: members.keys).values { subscriber.recheckAccess() }
    }

    // MARK: Drain

    func drain(over milliseconds: Int) {
        drainEnd = ContinuousClock.now + .milliseconds(milliseconds + SubscriberPolicy.drainGraceMs)
        http.drainUnheld()
        for connection in connections.values where connection.isHolding {
            let wait = policy.drainWaitMs(over: milliseconds)
            loop.scheduleTask(in: .milliseconds(Int64(wait))) { connection.drain() }
        }
    }

    func closeAll() {
        canaries.closeAll()
        http.closeAll()
    }

    /// Retry time for a stream that the drain ends: see the engine's.
    func drainRetryMs() -> Int {
        let left = drainEnd.map { max(0, ContinuousClock.now.duration(to: $0).milliseconds) } ?? 0
        return policy.drainRetryMs(left: left, connections: connections.count)
    }

    func retryMs() -> Int { policy.retryMs() }
}
