import CEpoll
import Logging
import StalecastHub
import StalecastWire
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// A request that came up while events were being taken and needs later ones.
enum Postponed {
    case adoption(Adoption)
    case head(Int32, generation: UInt32)
}

/// Settings needed for each new stream, in whole milliseconds.
struct Times {
    let heartbeat: Int
    let header: Int
    let retry: Int

    init(_ settings: EdgeSettings) {
        heartbeat = settings.heartbeat.milliseconds
        header = settings.headerTimeout.milliseconds
        retry = settings.retry.milliseconds
    }
}

/// One event loop of the stream engine: accepts, recognises, holds streams and polls, writes messages to them.
///
/// `@unchecked Sendable`: all state but `inbox`, `published` and `turnedAt` belongs to the shard's own thread, which
/// `run()` occupies; other threads only post events.
final class Shard: @unchecked Sendable {
    static let flushEvery = 64
    private static let listenerTag = UInt64.max
    private static let bellTag = UInt64.max - 1
    private static let maxEvents = 512
    private static let acceptsPerTurn = 256

    let number: Int
    let hub: Hub
    let ledger: AddressLedger
    let logger: Logger
    /// Takes a descriptor the engine does not want, with unread input.
    let handOver: @Sendable (Int32, UInt64, Bool) -> Void

    private let inbox = Mutex<[ShardEvent]>([])
    private let published = Mutex(EdgeTally())
    private let turnedAt = Atomic<UInt64>(0)
    private let bell: Int32
    private let epoll: Int32
    var listener: Int32
    private var isListening = false

    var settings: EdgeSettings { didSet { times = Times(settings) } }
    private(set) var times: Times
    /// The stream head of this second.
    var headCache: (second: String, cors: String, bytes: [UInt8]) = ("", "", [])
    var board: TopicBoard
    var cache = NoticeCache()
    let slots = SlotTable()
    var members: [[Int32]] = []
    var several: [Int32: SeveralTopics] = [:]
    var backlogs: [Int32: Backlog] = [:]
    /// Allowed origins that held polls will need again, from 1.
    var origins: [String] = [""]
    var wheel = TimerWheel()
    var tally = EdgeTally()
    var random = SystemRandomNumberGenerator()
    var date = HTTPDate()
    var out: [UInt8] = []
    var doomed: [(Int32, DropReason)] = []
    var draining: (done: @Sendable () -> Void, deadline: Tick)?
    /// True while events are handled: who needs later ones must wait, or they would be applied before earlier ones.
    private(set) var isTakingInbox = false
    var postponed: [Postponed] = []
    let peekBuffer: UnsafeMutableBufferPointer<UInt8>
    /// When a hidden topic may have its next message, and what waits for that.
    var pacedUntil: [TopicIndex: Tick] = [:]
    var heldBack: [TopicIndex: Announcement] = [:]
    var echoes: [TopicIndex: BurstEcho] = [:]
    var syncedCache: (sequence: CommitSequence, chunk: [UInt8]) = (.max, [])
    private var fired: [Int32] = []
    private var startedAt: UInt64 = 0
    private var isStopped = false

    /// - Parameter listener: a listening socket that the shard owns from here on.
    init(
        number: Int, listener: Int32, hub: Hub, ledger: AddressLedger, settings: EdgeSettings, logger: Logger,
        handOver: @escaping @Sendable (Int32, UInt64, Bool) -> Void
    ) throws(EdgeError) {
        self.number = number
        self.listener = listener
        self.hub = hub
        self.ledger = ledger
        self.settings = settings
        times = Times(settings)
        self.logger = logger
        self.handOver = handOver
        bell = stalecast_eventfd()
        epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard bell >= 0, epoll >= 0 else { throw .noDescriptor(errno) }
        peekBuffer = .allocate(capacity: settings.maxHeadBytes + 1)
        board = hub.board
    }

    deinit {
        close(bell)
        close(epoll)
        peekBuffer.deallocate()
    }

    /// Joins the hub; called once before `run()`.
    func attach() {
        board = hub.attach { [self] in post(.hub($0)) }
        growMembers()
    }

    /// Queues an event and wakes the shard; never blocks.
    func post(_ event: ShardEvent) {
        inbox.withLock { $0.append(event) }
        stalecast_ring(bell)
    }

    /// The counts as of the shard's last turn.
    var lastTally: EdgeTally { published.withLock { $0 } }

    /// When the loop last turned, in nanoseconds of the monotonic clock; it turns at least ten times a second.
    var lastTurn: UInt64 { turnedAt.load(ordering: .relaxed) }

    /// Runs the loop until `.stop`.
    func run() {
        startedAt = stalecast_monotonic_ns()
        stalecast_epoll_add_level(epoll, bell, Self.bellTag)
        setListening(true)
        withUnsafeTemporaryAllocation(of: epoll_event.self, capacity: Self.maxEvents) { events in
            while !isStopped { turn(events) }
        }
        closeAll()
    }

    private func turn(_ events: UnsafeMutableBufferPointer<epoll_event>) {
        let count = epoll_wait(epoll, events.baseAddress, Int32(Self.maxEvents), timeoutMs())
        for index in 0..<max(0, Int(count)) { dispatch(events[index]) }
        advanceTimers()
        releaseDoomed()
        publishTally()
    }

    private func dispatch(_ event: epoll_event) {
        var event = event
        let tag = stalecast_event_tag(&event)
        switch tag {
        case Self.listenerTag: acceptSome()
        case Self.bellTag:
            stalecast_drain(bell)
            takeInbox()
        default:
            let index = Int32(truncatingIfNeeded: tag)
            guard index < slots.end, slots[index].pointee.generation == UInt32(tag >> 32) else { return }
            ready(index, event.events)
        }
    }

    /// Milliseconds to the next tick of the wheel.
    private func timeoutMs() -> Int32 {
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
            for index in fired { timerFired(index) }
            if !heldBack.isEmpty { flushPaced() }
            if !echoes.isEmpty { echoBursts() }
        }
        if !isListening, listener >= 0, draining == nil, hasRoom { setListening(true) }
        finishDrainIfDone()
        turnedAt.store(now, ordering: .relaxed)
    }

    private func publishTally() {
        tally.stalled = backlogs.count
        published.withLock { $0 = tally }
    }

    // MARK: Inbox

    /// Handles everything posted so far, in order.
    func takeInbox() {
        precondition(!isTakingInbox, "events are taken in order, never from within one")
        isTakingInbox = true
        let events = inbox.withLock { inbox in
            defer { inbox = [] }
            return inbox
        }
        var run: [Announcement] = []
        for event in events {
            if case .hub(.announcement(let announcement)) = event {
                run.append(announcement)
                continue
            }
            broadcastRun(&run)
            handle(event)
        }
        broadcastRun(&run)
        isTakingInbox = false
        resumePostponed()
    }

    /// What had to wait for the events that were being taken.
    private func resumePostponed() {
        let waiting = postponed
        postponed = []
        for item in waiting {
            switch item {
            case .adoption(let adoption): adopt(adoption)
            case .head(let index, let generation):
                if slots[index].pointee.generation == generation, slots[index].pointee.phase == .head {
                    readHead(index)
                }
            }
        }
    }

    /// Announcements that came while the shard was busy are one walk: newest wins.
    private func broadcastRun(_ run: inout [Announcement]) {
        guard !run.isEmpty else { return }
        broadcast(run)
        run.removeAll()
    }

    private func handle(_ event: ShardEvent) {
        switch event {
        case .hub(.announcement(let announcement)): broadcast([announcement])
        case .hub(.data(let message)): broadcast(message)
        case .hub(.rebound(let board)): rebind(to: board)
        case .settings(let settings): self.settings = settings
        case .adopt(let adoption): adopt(adoption)
        case .presence(let reply): reply(presence())
        case .drain(let milliseconds, let done): drain(over: milliseconds, done: done)
        case .stop: isStopped = true
        }
    }

    // MARK: Accepting

    /// Connections beyond the cap that are still accepted to be told so; more wait in the kernel's queue.
    static let refusalHeadroom = 64

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
        let admission = ledger.enter(address, settings: settings)
        let index = claim(fd, address)
        if admission != .admitted {
            slots[index].pointee.isRefused = true
            tally.refused[admission == .overTotal ? .capacity : .addressCapacity, default: 0] += 1
        }
        wheel.insert(index, due: wheel.now + TimerWheel.ticks(times.header), in: slots)
    }

    /// Gives a descriptor a slot in phase `.head` and watches it.
    func claim(_ fd: Int32, _ address: UInt64) -> Int32 {
        let index = slots.take()
        let slot = slots[index]
        slot.pointee.fd = fd
        slot.pointee.address = address
        slot.pointee.phase = .head
        stalecast_epoll_add(epoll, fd, UInt64(slot.pointee.generation) << 32 | UInt64(UInt32(bitPattern: index)))
        return index
    }

    /// Stops watching a descriptor that somebody else will own.
    func unwatch(_ fd: Int32) { stalecast_epoll_remove(epoll, fd) }

    func growMembers() {
        while members.count < board.topics.count { members.append([]) }
    }

    private func closeAll() {
        for index in 0..<slots.end where slots[index].pointee.phase != .free { release(index, .drain) }
        stopListening()
        publishTally()
    }
}
