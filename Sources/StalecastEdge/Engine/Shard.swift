import CLinux
import Glibc
import Logging
import StalecastHTTP
package import StalecastHub
package import StalecastWire

/// One event loop of the stream engine: accepts, recognises, holds streams and polls, writes messages to them.
///
/// `@unchecked Sendable`: all state but `inbox`, `published` and the atomics belongs to the shard's own thread, which
/// `run()` occupies; other threads only post events.
///  Longer than other files: the loop, its inbox and accepting change together. What subscribers were promised is kept
/// by its ``Audience``; requests, fetches and sockets lie beside.
package final class Shard: Carrier, @unchecked Sendable {
    static let flushEvery = SendBatch.most
    private static let maxEvents = 512
    private static let acceptsPerTurn = 256

    package let context: EdgeContext
    /// Takes a descriptor the engine does not want, with the input that was read.
    let handOver: @Sendable (Handover) -> Void
    /// Closes soon a connection of the Front that asks nothing; false when it has none.
    let makeRoomInFront: @Sendable () -> Bool

    private let inbox = Inbox<Event>()
    let gauges: LoopGauges
    let poller: Poller
    #if !DEBUG
        // A fetch writes to it twenty times, and each check is two calls. Debug builds check.
        @exclusivity(unchecked)
    #endif
    package var audience: Audience
    /// Called when a running drain is over; nil while there is none.
    private var drained: (@Sendable () -> Void)?
    private var postponement = Postponement()
    var input: RequestInput
    let recordCipher = TLSRecordCipher()
    /// The trusted peers of connections that may speak for others.
    var proxies: [Int32: IPAddress] = [:]
    /// Slot at which the last look for room ended.
    var lastLook: Int32 = 0
    private var turns = Turns()

    /// - Parameter listener: a listening socket that the shard owns from here on; -1 for none.
    package init(
        number: Int, listener: Int32, _ context: EdgeContext, settings: EdgeSettings,
        handOver: @escaping @Sendable (Handover) -> Void,
        makeRoomInFront: @escaping @Sendable () -> Bool = { false }
    ) throws(EdgeError) {
        (self.context, self.handOver, self.makeRoomInFront) = (context, handOver, makeRoomInFront)
        gauges = LoopGauges("edge-\(number)")
        poller = try Poller(listener)
        input = RequestInput(capacity: settings.connections.maxHeadBytes + Recogniser.maxBodyBytes + 1)
        audience = Audience(context.hub.board, settings)
    }

    deinit { input.buffer.deallocate() }

    package var hub: Hub { context.hub }
    var served: ServedTemplates { context.served }
    var ledger: AddressLedger { context.ledger }
    /// A new connection is the Front's until its handshake is over.
    var isTLS: Bool { context.tls != nil }
    /// Whether a cursor that is ahead of the board may be one of another node.
    var awaitsCursors: Bool { context.freshness != nil }
    var logger: Logger { context.logger }

    /// Joins the hub; called once before `run()`.
    package func attach() { attach { [self] in post(.hub($0), for: $1) } }

    package var connectionCount: Int { slots.used }

    /// Queues an event and wakes the shard; never blocks. Once the shard has stopped it is answered here.
    ///
    /// - Parameter scope: see ``Inbox/post(_:for:)``.
    /// - Returns: false when the event waits for the next turn.
    @discardableResult
    package func post(_ event: Event, for scope: Scope? = nil) -> Bool {
        switch inbox.post(event, for: scope) {
        case .wake: poller.ring()
        case .woken: break
        case .waits: return false
        case .closed: answerAfterStop(event)
        }
        return true
    }

    package var lastTally: EdgeTally { gauges.lastTally }

    /// Runs the loop until `.stop`.
    package func run() {
        turns.startedAt = stalecast_monotonic_ns()
        turns.thread = pthread_self()
        poller.begin()
        withUnsafeTemporaryAllocation(of: epoll_event.self, capacity: Self.maxEvents) { events in
            while !turns.isStopped { turn(events) }
        }
        closeAll()
    }

    /// Every way into the shard's state asks this; nothing of it is left in a release build.
    func assertOnLoop() {
        assert(turns.thread == nil || turns.thread == pthread_self(), "a shard's state belongs to its own thread")
    }

    private func turn(_ events: UnsafeMutableBufferPointer<epoll_event>) {
        let count = poller.wait(events, timeoutMs())
        turns.began = stalecast_monotonic_ns()
        for index in 0..<count { dispatch(events[index]) }
        advanceTimers()
        resumePostponed()
        releaseDoomed()
        // What waits may seat further subscribers.
        while let scopes = audience.heard.takeNew() { if inbox.hear(scopes) { takeInbox() } }
        publishTally()
        turns.length = stalecast_monotonic_ns() &- turns.began
    }

    /// Seconds that a request of this turn has taken. The turn before is included, because the request may have waited
    /// for it.
    var secondsInTurn: Double { Double(turns.length &+ stalecast_monotonic_ns() &- turns.began) / 1e9 }

    private func dispatch(_ event: epoll_event) {
        var event = event
        let tag = stalecast_event_tag(&event)
        switch tag {
        case Poller.listenerTag: acceptSome()
        case Poller.wakeTag:
            poller.takeRing()
            takeInbox()
        default:
            let index = Int32(truncatingIfNeeded: tag)
            // An earlier event of this batch may have freed the slot and given it to another connection.
            guard index < slots.end, slots[index].pointee.generation == UInt32(tag >> 32) else { return }
            ready(index, event.events)
        }
    }

    /// Milliseconds to the next tick of the wheel.
    private func timeoutMs() -> Int32 {
        guard postponement.items.isEmpty else { return 0 }
        let elapsed = stalecast_monotonic_ns() &- turns.startedAt
        let next = (UInt64(audience.wheel.now) + 1) * TimerWheel.tickNanoseconds
        return next <= elapsed ? 0 : Int32((next - elapsed) / 1_000_000 + 1)
    }

    private func advanceTimers() {
        let now = stalecast_monotonic_ns()
        // An announcement without subscribers here did not wake the shard.
        if hub.newestSequence > board.headSequence { takeInbox() }
        advance(to: Tick((now &- turns.startedAt) / TimerWheel.tickNanoseconds))
        if !poller.isListening, poller.listener >= 0, !isDraining, hasRoom || makeRoom() { poller.setListening(true) }
        finishDrainIfDone()
        gauges.turned(at: now)
    }

    private func publishTally() {
        gauges.count(streams: audience.tally.streams, polls: audience.tally.polls)
        guard turns.isStopped || gauges.isDue(at: stalecast_monotonic_ns()) else { return }
        if audience.reach.rollouts.hasNews { audience.tellStreamCounts(hub.propagation) }
        audience.tally.stalled = audience.backlogs.count
        gauges.publish(audience.tally)
    }

    // MARK: Inbox

    /// Handles everything posted so far, in order; never from within an event.
    private func takeInbox() {
        assertOnLoop()
        let events = inbox.take()
        var run: [TopicBoard.Announcement] = []
        for event in events {
            if case .hub(.announcement(let announcement)) = event {
                run.append(announcement)
                continue
            }
            broadcast(run)
            run.removeAll()
            handle(event)
        }
        broadcast(run)
    }

    /// True when a request must wait until the end of the turn: a client that was told of a version by another shard is
    /// never shown an older one here, nor taken for a client from the future.
    func postpones(_ item: Postponed) -> Bool {
        let newest = hub.newestSequence
        guard newest > board.headSequence else { return false }
        postponement.items.append(item)
        postponement.until = newest
        return true
    }

    /// Defers the next pipelined request to the end of the turn, so that a long pipeline cannot recurse.
    func readHeadLater(_ index: Int32) {
        postponement.until = hub.newestSequence
        postponement.items.append(.head(index, generation: slots[index].pointee.generation))
    }

    /// Takes the announcements that were made before the postponed requests came, then serves these. A connection may
    /// be gone by then, and another one may have its slot.
    private func resumePostponed() {
        guard !postponement.items.isEmpty else { return }
        let waiting = postponement.items
        postponement.items = []
        if board.headSequence < postponement.until {
            // Waits until a running announcement has been posted to this shard.
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

    private func handle(_ event: Event) {
        switch event {
        case .hub(let event): handle(event)
        case .settings(let settings): apply(settings)
        case .adopt(let adoption): adopt(adoption)
        case .canary(let scope, let end): audience.seatCanary(end, of: scope)
        case .accessChanged: recheckAccess()
        case .verified(let index, let generation, let denial, let address):
            verified(index, generation, denial, address)
        case .ask(let answer): answer(self)
        case .drain(let milliseconds, let done): drain(over: milliseconds, done: done)
        case .stop: turns.isStopped = true
        }
    }

    private func apply(_ settings: EdgeSettings) {
        let before = StreamEngine.userTimeoutMs(self.settings)
        if audience.apply(settings) { recheckAccess() }
        let timeout = StreamEngine.userTimeoutMs(settings)
        guard timeout != before else { return }
        poller.setUserTimeout(timeout)
        for index in 0..<slots.end where slots[index].pointee.phase != .free {
            stalecast_set_user_timeout(slots[index].pointee.fd, timeout)
        }
    }

    // MARK: Accepting

    /// Connections beyond the cap that are still accepted to be told so; more wait in the kernel's queue.
    static let refusalHeadroom = 24

    private var hasRoom: Bool { ledger.total < settings.caps.connections + Self.refusalHeadroom }

    private func acceptSome() {
        for _ in 0..<Self.acceptsPerTurn {
            guard poller.listener >= 0 else { return }
            guard hasRoom else { return poller.setListening(false) }
            var address: UInt64 = 0
            let fd = stalecast_accept(poller.listener, &address)
            if fd < 0 {
                if errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS {
                    // A level-triggered listener would wake the loop again at once, as long as the shortage lasts.
                    poller.setListening(false)
                }
                if errno == EAGAIN || !poller.isListening { return }
                continue
            }
            admit(fd, address)
        }
    }

    private func admit(_ fd: Int32, _ address: UInt64) {
        audience.tally.accepted += 1
        let proxy = trustedProxy(fd)
        if settings.proxies.speakPROXY, proxy == nil {
            audience.tally.refused[.untrustedPeer, default: 0] += 1
            close(fd)
            return
        }
        let address = proxy == nil ? address : AddressLedger.unknown
        if ledger.total >= settings.caps.connections { makeRoom() }
        let admission = ledger.enter(address, caps: settings.caps)
        guard let index = claim(fd, address, proxy: proxy) else { return }
        slots[index].pointee.input.awaitsProxyHeader = settings.proxies.speakPROXY
        // What the kernel had accepted before the listener learned of it.
        if let userTimeoutMs = poller.userTimeoutMs { stalecast_set_user_timeout(fd, userTimeoutMs) }
        if admission != .admitted {
            slots[index].pointee.input.isRefused = true
            audience.tally.refused[admission == .overTotal ? .capacity : .addressCapacity, default: 0] += 1
        }
        audience.wheel.insert(
            index, due: audience.wheel.now + TimerWheel.ticks(settings.connections.headTimeout.milliseconds), in: slots)
    }

    /// Gives a descriptor a slot in phase `.head` and watches it; closes it when the kernel has no room for that.
    func claim(_ fd: Int32, _ address: UInt64, _ tls: TLSSession? = nil, proxy: IPAddress?) -> Int32? {
        let index = slots.take()
        let slot = slots[index]
        slot.pointee.fd = fd
        slot.pointee.client.address = address
        if let tls { slot.pointee.cover = .session(tls) }
        slot.pointee.phase = .head
        if let proxy { proxies[index] = proxy }
        let tag = UInt64(slot.pointee.generation) << 32 | UInt64(UInt32(bitPattern: index))
        if poller.watch(fd, tag) { return index }
        release(index, .capacity)
        return nil
    }

    private func closeAll() {
        releaseDoomed()
        for index in 0..<slots.end where slots[index].pointee.phase != .free { release(index, .drain) }
        audience.canaries.closeAll()
        poller.stopListening()
        drained?()
        drained = nil
        // From here on `post` answers by itself; what came before is answered here.
        for event in inbox.close() + postponement.items.compactMap(\.event) { answerAfterStop(event) }
        publishTally()
    }

    private func drain(over milliseconds: Int, done: @escaping @Sendable () -> Void) {
        poller.stopListening()
        drained = done
        audience.drain(over: milliseconds)
        for index in 0..<slots.end {
            switch slots[index].pointee.phase {
            // A fetch that has begun is answered.
            case .head where slots[index].pointee.input.waits > 0: giveToFront(index)
            case .head, .verifying: release(index, .drain)
            case .answering: slots[index].pointee.request.keepAlive = false
            case .free, .doomed, .poll, .direct, .stream: continue
            }
        }
    }

    /// Tells that the drain is over when nothing is left, or when its time is up whatever is left.
    private func finishDrainIfDone() {
        guard let drained, let end = audience.drainEnd, slots.used == 0 || audience.wheel.now >= end else { return }
        for index in 0..<slots.end where slots[index].pointee.phase != .free { release(index, .drain) }
        audience.drainEnd = nil
        self.drained = nil
        drained()
    }

    /// Answers an event after the shard has stopped: no caller waits for ever, and no descriptor stays open. On any
    /// thread.
    private func answerAfterStop(_ event: Event) {
        switch event {
        case .adopt(let adoption):
            adoption.tls?.free()
            close(adoption.fd)
            ledger.leave(adoption.address)
        case .ask(let answer): answer(nil)
        case .drain(_, let done): done()
        case .hub, .settings, .accessChanged, .verified, .canary, .stop: return
        }
    }

    /// Requests that came before the shard had taken what the hub announced earlier.
    private struct Postponement {
        var items: [Postponed] = []
        /// The board must have reached this before they are served.
        var until: CommitSequence = 0
    }

    /// Times of the loop, in nanoseconds of the monotonic clock.
    private struct Turns {
        /// nil until the loop runs.
        var thread: pthread_t?
        var startedAt: UInt64 = 0
        /// Begin of this turn, and the length of the one before.
        var began: UInt64 = 0
        var length: UInt64 = 0
        var isStopped = false
    }

    /// Request that is served when the shard has caught up with the hub.
    enum Postponed {
        case adoption(Shard.Adoption)
        case head(Int32, generation: UInt32)

        var event: Shard.Event? { if case .adoption(let adoption) = self { .adopt(adoption) } else { nil } }
    }
}
