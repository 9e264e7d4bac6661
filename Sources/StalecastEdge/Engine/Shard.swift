import CLinux
import Glibc
package import Logging
package import StalecastAccess
package import StalecastHTTP
package import StalecastHub
package import StalecastWire
import Synchronization

/// One event loop of the stream engine: accepts, recognises, holds streams and polls, writes messages to them.
///
/// `@unchecked Sendable`: all state but `inbox`, `published` and the atomics belongs to the shard's own thread, which
/// `run()` occupies; other threads only post events.
///  Longer than other files: the loop, its inbox and its lists change together; delivery, membership and timers lie
/// beside.
package final class Shard: @unchecked Sendable {
    static let flushEvery = 64
    private static let ticksPerCount: Tick = 10
    private static let listenerTag = UInt64.max
    private static let wakeTag = UInt64.max - 1
    private static let maxEvents = 512
    private static let acceptsPerTurn = 256

    let number: Int
    let hub: Hub
    let served: ServedTemplates
    let ledger: AddressLedger
    /// The listener speaks TLS: a new connection is the Front's until its handshake is over.
    let isTLS: Bool
    /// Whether a cursor that is ahead of the board may be one of another node.
    let awaitsCursors: Bool
    let logger: Logger
    /// Takes a descriptor the engine does not want, with unread input.
    let handOver: @Sendable (Handover) -> Void
    /// Closes soon a connection of the Front that asks nothing; false when it has none.
    let makeRoomInFront: @Sendable () -> Bool

    /// nil once the shard has stopped.
    private let inbox = Mutex<[Event]?>([])
    private let published = Mutex(EdgeTally())
    private let turnedAt = Atomic<UInt64>(0)
    private let wantedUntil = Atomic<UInt64>(0)
    private let streams = Atomic<Int>(0)
    private let polls = Atomic<Int>(0)
    private var publishAt: UInt64 = 0
    private let wakeDescriptor: Int32
    private let epoll: Int32
    var listener: Int32
    private var isListening = false

    private(set) var settings: EdgeSettings
    var policy: SubscriberPolicy
    /// `TCP_USER_TIMEOUT` as changed since the listener was made; nil when it was not.
    private var userTimeoutMs: UInt32?
    /// The stream head of this second.
    var headCache: (second: String, cors: String, bytes: [UInt8]) = ("", "", [])
    /// The end of the last fetch's head.
    var endingCache: (second: String, fields: String, bytes: [UInt8]) = ("", "", [])
    var board: TopicBoard
    var cache = EncodedMessageCache()
    let slots = SlotTable()
    var members: [[Int32]] = []
    var several: [Int32: SeveralTopics] = [:]
    /// Keeps the principals of streams and held polls known, by slot; those of keys need none.
    var holds: [Int32: PrincipalHold] = [:]
    var backlogs: [Int32: Backlog] = [:]
    /// Names in a held poll's request that mean nothing; its answer says so.
    var unknownTopics: [Int32: [TopicName]] = [:]
    /// Allowed origins that held polls will need again, from 1.
    var origins: [String] = [""]
    var wheel = TimerWheel()
    var tally = EdgeTally()
    var date = HTTPDate()
    var out: [UInt8] = []
    var doomed: [(Int32, DropReason)] = []
    var draining: (done: @Sendable () -> Void, deadline: Tick)?
    private var postponed: [Postponed] = []
    /// The board must have reached this before they are served.
    private var postponedUntil: CommitSequence = 0
    let peekBuffer: UnsafeMutableBufferPointer<UInt8>
    let recordCipher = TLSRecordCipher()
    /// Times when hidden topics may have their next message, and the messages that wait for that.
    var pacedUntil: [Topic.Index: Tick] = [:]
    var heldBack: [Topic.Index: TopicBoard.Announcement] = [:]
    var echoes: [Topic.Index: BurstEcho] = [:]
    /// Walks that take their time, and the streams they have not come to, each with the first version it was not told
    /// of.
    var fanOuts: [Topic.Index: PacedFanOut<Int32>] = [:]
    var unreached: [Int32: CommitSequence] = [:]
    /// Streams of superseded fan-outs that one at once reaches, until that is over.
    var reachedAtOnce: [Int32] = []
    var fanOutTurn = 0
    var canaries = CanarySeats()
    /// Number of this shard in the hub's book.
    private(set) var loop = 0
    /// Progress of versions on the streams here.
    var rollouts = LoopRollouts()
    /// Time when peers' acknowledgements may be asked for again.
    var probeAt: UInt64 = 0
    /// The first version that is held back for a hidden topic.
    var heldSince: [Topic.Index: CommitSequence] = [:]
    /// Held polls among the members of each topic.
    var heldPolls: [Int] = []
    /// The trusted peers of connections that may speak for others.
    var proxies: [Int32: IPAddress] = [:]
    /// Streams and polls whose clients say who they are, by what the book knows these by.
    var identities: [Int32: [UInt64]] = [:]
    var syncedCache: (sequence: CommitSequence, chunk: [UInt8]) = (.max, [])
    /// Slot at which the last look for room ended.
    var lastLook: Int32 = 0
    private var fired: [Int32] = []
    private var startedAt: UInt64 = 0
    private var isStopped = false
    /// Begin of this turn, and the length of the one before.
    private var turnBegan: UInt64 = 0
    private var turnLength: UInt64 = 0

    /// - Parameter listener: a listening socket that the shard owns from here on; -1 for none.
    package init(
        number: Int, listener: Int32, hub: Hub, served: ServedTemplates = ServedTemplates(), ledger: AddressLedger,
        settings: EdgeSettings, isTLS: Bool = false,
        awaitsCursors: Bool = false, logger: Logger, handOver: @escaping @Sendable (Handover) -> Void,
        makeRoomInFront: @escaping @Sendable () -> Bool = { false }
    ) throws(EdgeError) {
        self.number = number
        self.listener = listener
        self.hub = hub
        self.served = served
        self.ledger = ledger
        self.settings = settings
        self.isTLS = isTLS
        self.awaitsCursors = awaitsCursors
        policy = SubscriberPolicy(settings)
        self.logger = logger
        self.handOver = handOver
        self.makeRoomInFront = makeRoomInFront
        wakeDescriptor = stalecast_eventfd()
        epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard wakeDescriptor >= 0, epoll >= 0 else { throw .noDescriptor(errno) }
        peekBuffer = .allocate(capacity: settings.maxHeadBytes + Recogniser.maxBodyBytes + 1)
        board = hub.board
    }

    deinit {
        close(wakeDescriptor)
        close(epoll)
        peekBuffer.deallocate()
    }

    /// Joins the hub; called once before `run()`.
    package func attach() {
        loop = hub.propagation.addLoop()
        board = hub.attach { [self] in post(.hub($0)) }
        growMembers()
    }

    /// Queues an event and wakes the shard; never blocks. Once the shard has stopped it is answered here.
    package func post(_ event: Event) {
        let isQueued = inbox.withLock { inbox in
            inbox?.append(event)
            return inbox != nil
        }
        if isQueued { stalecast_ring(wakeDescriptor) } else { answerAfterStop(event) }
    }

    /// Streams and polls as of the shard's last turn; the rest may be a tenth of a second old when no one asked for a
    /// second.
    package var lastTally: EdgeTally {
        wantedUntil.store(stalecast_monotonic_ns() + 1_000_000_000, ordering: .relaxed)
        var tally = published.withLock { $0 }
        tally.streams = streams.load(ordering: .relaxed)
        tally.polls = polls.load(ordering: .relaxed)
        return tally
    }

    /// Time of the loop's last turn, in nanoseconds of the monotonic clock; it turns at least ten times a second.
    var lastTurn: UInt64 { turnedAt.load(ordering: .relaxed) }

    /// Runs the loop until `.stop`.
    package func run() {
        startedAt = stalecast_monotonic_ns()
        stalecast_epoll_add_level(epoll, wakeDescriptor, Self.wakeTag)
        setListening(true)
        withUnsafeTemporaryAllocation(of: epoll_event.self, capacity: Self.maxEvents) { events in
            while !isStopped { turn(events) }
        }
        closeAll()
    }

    private func turn(_ events: UnsafeMutableBufferPointer<epoll_event>) {
        let count = epoll_wait(epoll, events.baseAddress, Int32(Self.maxEvents), timeoutMs())
        turnBegan = stalecast_monotonic_ns()
        for index in 0..<max(0, Int(count)) { dispatch(events[index]) }
        advanceTimers()
        resumePostponed()
        releaseDoomed()
        publishTally()
        turnLength = stalecast_monotonic_ns() &- turnBegan
    }

    /// Seconds that a request took that came with this turn: it may have waited for the whole turn before.
    var secondsInTurn: Double { Double(turnLength &+ stalecast_monotonic_ns() &- turnBegan) / 1e9 }

    private func dispatch(_ event: epoll_event) {
        var event = event
        let tag = stalecast_event_tag(&event)
        switch tag {
        case Self.listenerTag: acceptSome()
        case Self.wakeTag:
            stalecast_drain(wakeDescriptor)
            takeInbox()
        default:
            let index = Int32(truncatingIfNeeded: tag)
            guard index < slots.end, slots[index].pointee.generation == UInt32(tag >> 32) else { return }
            ready(index, event.events)
        }
    }

    /// Milliseconds to the next tick of the wheel.
    private func timeoutMs() -> Int32 {
        guard postponed.isEmpty else { return 0 }
        let elapsed = stalecast_monotonic_ns() &- startedAt
        let next = (UInt64(wheel.now) + 1) * TimerWheel.tickNanoseconds
        return next <= elapsed ? 0 : Int32((next - elapsed) / 1_000_000 + 1)
    }

    private func advanceTimers() {
        let now = stalecast_monotonic_ns()
        let target = Tick((now &- startedAt) / TimerWheel.tickNanoseconds)
        while wheel.now < target {
            fired.removeAll(keepingCapacity: true)
            wheel.advance(in: slots, fired: &fired)
            // One that an earlier firing ended, or that got another time by it, is not due any more.
            for index in fired where slots[index].pointee.due == 0 { timerFired(index) }
            if !heldBack.isEmpty { flushPaced() }
            if !fanOuts.isEmpty { advanceFanOuts() }
            if !echoes.isEmpty { echoBursts() }
            if hub.countsSubscribers, wheel.now % Self.ticksPerCount == 0 {
                let (all, firebase) = subscribersByScope()
                hub.count(all, firebase: firebase, of: self)
            }
        }
        if !isListening, listener >= 0, draining == nil, hasRoom || makeRoom() { setListening(true) }
        finishDrainIfDone()
        turnedAt.store(now, ordering: .relaxed)
    }

    private func publishTally() {
        streams.store(tally.streams, ordering: .relaxed)
        polls.store(tally.polls, ordering: .relaxed)
        let turn = stalecast_monotonic_ns()
        // Handing the counts out makes the next count copy them: ten times a second, or while a reader holds them.
        guard isStopped || turn >= publishAt || wantedUntil.load(ordering: .relaxed) > turn else { return }
        publishAt = turn + TimerWheel.tickNanoseconds
        if rollouts.hasNews { tellStreamCounts() }
        tally.stalled = backlogs.count
        published.withLock { $0 = tally }
    }

    // MARK: Inbox

    /// Handles everything posted so far, in order; never from within an event.
    private func takeInbox() {
        let events = inbox.withLock { inbox in
            defer { inbox = [] }
            return inbox ?? []
        }
        var run: [TopicBoard.Announcement] = []
        for event in events {
            if case .hub(.announcement(let announcement)) = event {
                run.append(announcement)
                continue
            }
            broadcastRun(&run)
            handle(event)
        }
        broadcastRun(&run)
    }

    /// True when a request must wait until the end of the turn: a client that was told of a version by another shard is
    /// never shown an older one here, nor taken for a client from the future.
    func postpones(_ item: Postponed) -> Bool {
        let newest = hub.newestSequence
        guard newest > board.headSequence else { return false }
        postponed.append(item)
        postponedUntil = newest
        return true
    }

    /// Looks for a request at the end of the turn: not within the answer to the one before, of which there may be many.
    func readHeadLater(_ index: Int32) {
        postponedUntil = hub.newestSequence
        postponed.append(.head(index, generation: slots[index].pointee.generation))
    }

    /// Takes what was announced before the postponed requests came, then serves them. By then a connection may be
    /// gone, and its slot taken by another.
    private func resumePostponed() {
        guard !postponed.isEmpty else { return }
        let waiting = postponed
        postponed = []
        if board.headSequence < postponedUntil {
            // Waits until the announcement that is under way was posted here.
            _ = hub.headSequence
            takeInbox()
        }
        for item in waiting {
            switch item {
            case .adoption(let adoption): serve(adoption)
            case .head(let index, let generation):
                guard slots[index].pointee.generation == generation, slots[index].pointee.phase == .head else {
                    continue
                }
                readHead(index, isCurrent: true)
            }
        }
    }

    /// Announcements that came while the shard was busy are one fan-out: newest wins.
    private func broadcastRun(_ run: inout [TopicBoard.Announcement]) {
        guard !run.isEmpty else { return }
        broadcast(run)
        run.removeAll()
    }

    private func handle(_ event: Event) {
        switch event {
        case .hub(.announcement(let announcement)): broadcast([announcement])
        case .hub(.data(let message)): broadcast(message)
        case .hub(.rebound(let board)): rebind(to: board)
        case .hub(.split(let scope, let board)): split(scope, as: board)
        case .settings(let settings): apply(settings)
        case .adopt(let adoption): adopt(adoption)
        case .canary(let scope, let socket): canaries.add(socket, of: scope)
        case .accessChanged: recheckAccess()
        case .looked(let index, let generation, let denial, let address):
            looked(at: index, generation, denial, address)
        case .presence(let reply): reply(presence())
        case .streamCounts(let scope, let reply): reply(streamCounts(of: scope))
        case .check(let reply): reply(slots.used, inconsistencies())
        case .drain(let milliseconds, let done): drain(over: milliseconds, done: done)
        case .stop: isStopped = true
        }
    }

    private func apply(_ settings: EdgeSettings) {
        let before = self.settings
        self.settings = settings
        policy = SubscriberPolicy(settings)
        if settings.mayRevoke(after: before) { recheckAccess() }
        // What a held poll was asked from must be found again.
        if tally.polls == 0 { origins = [""] }
        let timeout = StreamEngine.userTimeoutMs(settings)
        guard timeout != StreamEngine.userTimeoutMs(before) else { return }
        userTimeoutMs = timeout
        if listener >= 0 { stalecast_set_user_timeout(listener, timeout) }
        for index in 0..<slots.end where slots[index].pointee.phase != .free {
            stalecast_set_user_timeout(slots[index].pointee.fd, timeout)
        }
    }

    // MARK: Accepting

    /// Connections beyond the cap that are still accepted to be told so; more wait in the kernel's queue.
    static let refusalHeadroom = 24

    private var hasRoom: Bool { ledger.total < settings.maxConnections + Self.refusalHeadroom }

    private func setListening(_ on: Bool) {
        guard listener >= 0, on != isListening else { return }
        isListening = on
        if on {
            stalecast_epoll_add_level(epoll, listener, Self.listenerTag)
        } else {
            stalecast_epoll_remove(epoll, listener)
        }
    }

    func stopListening() {
        setListening(false)
        if listener >= 0 { close(listener) }
        listener = -1
    }

    private func acceptSome() {
        for _ in 0..<Self.acceptsPerTurn {
            guard listener >= 0 else { return }
            guard hasRoom else { return setListening(false) }
            var address: UInt64 = 0
            let fd = stalecast_accept(listener, &address)
            if fd < 0 {
                if errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS { setListening(false) }
                if errno == EAGAIN || !isListening { return }
                continue
            }
            admit(fd, address)
        }
    }

    private func admit(_ fd: Int32, _ address: UInt64) {
        tally.accepted += 1
        let proxy = trustedProxy(fd)
        if settings.proxies.speakPROXY, proxy == nil {
            tally.refused[.untrustedPeer, default: 0] += 1
            close(fd)
            return
        }
        let address = proxy == nil ? address : AddressLedger.unknown
        if ledger.total >= settings.maxConnections { makeRoom() }
        let admission = ledger.enter(address, settings: settings)
        guard let index = claim(fd, address, proxy: proxy) else { return }
        slots[index].pointee.awaitsProxyHeader = settings.proxies.speakPROXY
        // What the kernel had accepted before the listener learned of it.
        if let userTimeoutMs { stalecast_set_user_timeout(fd, userTimeoutMs) }
        if admission != .admitted {
            slots[index].pointee.isRefused = true
            tally.refused[admission == .overTotal ? .capacity : .addressCapacity, default: 0] += 1
        }
        wheel.insert(index, due: wheel.now + TimerWheel.ticks(settings.headerTimeout.milliseconds), in: slots)
    }

    /// Gives a descriptor a slot in phase `.head` and watches it; closes it when the kernel has no room for that.
    func claim(_ fd: Int32, _ address: UInt64, _ tls: TLSSession? = nil, proxy: IPAddress?) -> Int32? {
        let index = slots.take()
        let slot = slots[index]
        slot.pointee.fd = fd
        slot.pointee.address = address
        if let tls { slot.pointee.cover = .session(tls) }
        slot.pointee.phase = .head
        if let proxy { proxies[index] = proxy }
        let tag = UInt64(slot.pointee.generation) << 32 | UInt64(UInt32(bitPattern: index))
        if stalecast_epoll_add(epoll, fd, tag) == 0 { return index }
        release(index, .capacity)
        return nil
    }

    /// Stops watching a descriptor that another thread will own.
    func unwatch(_ fd: Int32) { stalecast_epoll_remove(epoll, fd) }

    func growMembers() {
        while members.count < board.topics.count {
            members.append([])
            heldPolls.append(0)
        }
    }

    private func closeAll() {
        releaseDoomed()
        for index in 0..<slots.end where slots[index].pointee.phase != .free { release(index, .drain) }
        canaries.closeAll()
        stopListening()
        draining?.done()
        draining = nil
        let unanswered = inbox.withLock { inbox in
            defer { inbox = nil }
            return inbox ?? []
        }
        for event in unanswered + postponed.compactMap(\.event) { answerAfterStop(event) }
        publishTally()
    }

    /// Answers an event after the shard has stopped: no caller waits for ever, and no descriptor stays open. On any
    /// thread.
    private func answerAfterStop(_ event: Event) {
        switch event {
        case .adopt(let adoption):
            adoption.tls?.free()
            close(adoption.fd)
            ledger.leave(adoption.address)
        case .canary(_, let socket): close(socket)
        case .presence(let reply): reply(Presence())
        case .streamCounts(_, let reply): reply(StreamCounts())
        case .check(let reply): reply(0, [])
        case .drain(_, let done): done()
        case .hub, .settings, .accessChanged, .looked, .stop: return
        }
    }

    /// Request of another thread to a shard.
    package enum Event: Sendable {
        case hub(Hub.Event)
        case settings(EdgeSettings)
        /// Principals may have lost something.
        case accessChanged
        /// The token in a slot's request was looked at; nil is good.
        case looked(Int32, generation: UInt32, Denial?, _ address: UInt64)
        /// A connection whose request the Front has read: the shard owns the descriptor from here on.
        case adopt(Adoption)
        /// An end that a scope's messages are written to as well: see ``Canaries``.
        case canary(Scope, Int32)
        /// Count subscribers by topic.
        case presence(@Sendable (Presence) -> Void)
        /// Count who has a scope's newest message.
        case streamCounts(Scope, @Sendable (StreamCounts) -> Void)
        /// Say what in the books contradicts itself, for tests.
        case check(@Sendable (_ connections: Int, _ problems: [String]) -> Void)
        /// Stop accepting and end everything within so many milliseconds, evenly spread.
        case drain(milliseconds: Int, done: @Sendable () -> Void)
        case stop
    }

    /// A connection handed from the Front to a shard.
    package struct Adoption: Sendable {
        let fd: Int32
        let address: UInt64
        let request: StreamRequest
        /// The connection's TLS, over memory; nil for a plain one.
        let tls: TLSSession?
        /// The trusted peer, which may speak for others in the next request; nil for one that speaks for itself.
        let proxy: IPAddress?

        package init(
            fd: Int32, address: UInt64, request: StreamRequest, tls: TLSSession? = nil, proxy: IPAddress? = nil
        ) {
            self.fd = fd
            self.address = address
            self.request = request
            self.tls = tls
            self.proxy = proxy
        }
    }

    /// A connection that the engine gives to the Front, with unread input.
    package struct Handover: Sendable {
        package let fd: Int32
        let address: UInt64
        /// It is over a cap.
        let isRefused: Bool
        /// TLS session that it had in the engine before.
        let tls: TLSSession?
        /// Address of the proxy, as above.
        let proxy: IPAddress?
    }

    /// A request that came before the shard had taken what the hub announced earlier.
    enum Postponed {
        case adoption(Shard.Adoption)
        case head(Int32, generation: UInt32)

        var event: Shard.Event? { if case .adoption(let adoption) = self { .adopt(adoption) } else { nil } }
    }
}
