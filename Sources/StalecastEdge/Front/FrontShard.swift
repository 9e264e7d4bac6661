import CLinux
import NIOCore
import StalecastHTTP
package import StalecastHub
import StalecastWire
import Synchronization

/// The subscribers that the Front itself holds on one event loop, over NIO channels, for connections the engine cannot
/// own; and the loop's part of its other connections. Its ``Audience`` keeps every promise made to subscribers.
///
/// `@unchecked Sendable`: all state but `inbox` and `gauges` is touched on `loop` only.
package final class FrontShard: Carrier, @unchecked Sendable {
    let loop: any EventLoop
    private let context: EdgeContext
    let gauges: LoopGauges
    private let inbox = Inbox<Hub.Event>()
    package var audience: Audience
    private let startedAt = stalecast_monotonic_ns()
    /// Time that the last turn waited for the loop, in seconds: requests wait as long to be read.
    private var lateness = 0.0
    /// Limits and clocks that its connections share below HTTP.
    let http: ConnectionLoop
    /// Connections of any kind on this loop, for the drain.
    var connections: [ObjectIdentifier: FrontConnection] = [:]
    private var seated: [Int32: FrontConnection] = [:]
    private var writing: Int32?

    init(number: Int, loop: any EventLoop, _ context: EdgeContext, settings: EdgeSettings) {
        self.loop = loop
        self.context = context
        http = ConnectionLoop(loop)
        gauges = LoopGauges("front-\(number)")
        gauges.turned(at: startedAt)
        audience = Audience(context.hub.board, settings)
    }

    package var hub: Hub { context.hub }
    var served: ServedTemplates { context.served }
    var freshness: (any FreshnessGate)? { context.freshness }

    func attach() -> EventLoopFuture<Void> {
        loop.submit { [self] in
            attach { [self] in post($0, for: $1) }
            let turn = TimeAmount.nanoseconds(Int64(TimerWheel.tickNanoseconds))
            loop.scheduleRepeatedTask(initialDelay: .zero, delay: turn) { [self] _ in takeTurn() }
        }
    }

    private func takeTurn() {
        let now = stalecast_monotonic_ns()
        lateness = Double(max(now &- gauges.lastTurn, TimerWheel.tickNanoseconds) - TimerWheel.tickNanoseconds) / 1e9
        gauges.turned(at: now)
        if hub.newestSequence > board.headSequence { takeInbox() }
        advance(to: tick(at: now))
        if audience.reach.rollouts.hasNews { audience.tellStreamCounts(hub.propagation) }
        publish()
    }

    private func tick(at now: UInt64) -> Tick { Tick((now &- startedAt) / TimerWheel.tickNanoseconds) }

    /// Seconds that a request took that was read then.
    func seconds(since time: UInt64) -> Double {
        lateness + Double(stalecast_monotonic_ns() &- time) / 1e9
    }

    var router: FrontRouter { FrontRouter(board: board, settings: settings, served: served) }

    private func publish() {
        if let scopes = audience.heard.takeNew(), inbox.hear(scopes) { loop.execute { self.takeInbox() } }
        audience.tally.stalled = audience.backlogs.count
        gauges.count(streams: audience.tally.streams, polls: audience.tally.polls)
        gauges.publish(audience.tally)
    }

    func apply(_ settings: EdgeSettings) {
        loop.assertInEventLoop()
        if audience.apply(settings) { recheckAccess() }
    }

    func count(_ fault: ConnectionFault) {
        let reason: DropReason =
            switch fault {
            case .headTimeout: .headerTimeout
            case .bodyTimeout: .bodyTimeout
            case .idle: .idle
            case .writeStall: .writeStall
            case .badRequest: .badRequest
            }
        audience.tally.drops[reason, default: 0] += 1
    }

    // MARK: Subscribers

    package var connectionCount: Int { connections.count }

    /// Begins a stream or a poll; its connection is held until ``release(_:_:)`` or ``finish(_:with:keepAlive:)``.
    func subscribe(_ connection: FrontConnection, _ request: StreamRequest, _ topics: AdmittedTopics) {
        loop.assertInEventLoop()
        let index = audience.seat(connection.address)
        seated[index] = connection
        connection.seat = index
        open(index, request, topics)
        publish()
    }

    private func vacate(_ index: Int32) -> FrontConnection? {
        guard let connection = seated.removeValue(forKey: index) else { return nil }
        connection.seat = nil
        slots.release(index)
        return connection
    }

    package func send(_ bytes: ArraySlice<UInt8>, to index: Int32) -> Sent {
        loop.assertInEventLoop()
        guard let connection = seated[index] else { return .gone }
        // The channel may report within this write that it takes bytes again: whether it does is asked below.
        let before = writing
        writing = index
        connection.send(Array(bytes))
        writing = before
        // The channel keeps what the socket did not take.
        return seated[index] !== connection ? .gone : connection.isWritable ? .all : .part(bytes.count)
    }

    func becameWritable(_ index: Int32) {
        // Otherwise it is asked after the write.
        guard writing != index else { return }
        drainBacklog(index)
        releaseDoomed()
    }

    package func finish(_ index: Int32, with answer: [UInt8], keepAlive: Bool) {
        loop.assertInEventLoop()
        guard let connection = vacate(index) else { return }
        connection.send(answer)
        connection.finished(keepAlive: keepAlive)
    }

    package func release(_ index: Int32, _ reason: DropReason?) {
        loop.assertInEventLoop()
        guard seated[index] != nil else { return }
        // Before `vacate`: it reads the slot, which is free after that.
        leave(index, reason)
        let connection = vacate(index)
        publish()
        let isBroken = reason == .peerClosed || reason == .writeStall
        if isBroken { connection?.close() } else { connection?.closeWhenWritten() }
    }

    func inconsistencies() -> [String] {
        let taken = (0..<slots.end).filter { slots[$0].pointee.phase != .free }
        let isSeated = Set(taken) == Set(seated.keys) && seated.allSatisfy { $0.value.seat == $0.key }
        return audience.inconsistencies() + (isSeated ? [] : ["the slots and the connections in them disagree"])
    }

    // MARK: Events

    /// Queues an event; one visit of the loop takes all that are there.
    ///
    /// - Returns: false when the event waits for the next turn.
    private func post(_ event: Hub.Event, for scope: Scope?) -> Bool {
        switch inbox.post(event, for: scope) {
        case .wake: loop.execute { self.takeInbox() }
        case .waits: return false
        case .woken, .closed: break
        }
        return true
    }

    private func takeInbox() {
        loop.assertInEventLoop()
        // A loop that is late would count a paced fan-out from a moment long past.
        advance(to: tick(at: stalecast_monotonic_ns()))
        handle(inbox.take())
        publish()
    }

    /// True when a client may have been told of a version that this loop has not taken yet.
    var isBehind: Bool { hub.newestSequence > board.headSequence }

    /// Takes announcements that other loops may have sent already. Call only at the beginning of a turn of the loop.
    func catchUp() {
        guard isBehind else { return }
        // Waits until the announcement that is under way was posted here.
        _ = hub.headSequence
        takeInbox()
    }

    /// Runs `body` now, or once the loop has taken the announcements that other loops may have sent already.
    func whenCurrent(_ body: @escaping () -> Void) {
        guard isBehind else { return body() }
        loop.assumeIsolated().execute { [self] in
            catchUp()
            body()
        }
    }

    func seatCanary(_ end: CanaryEnd, of scope: Scope) {
        audience.seatCanary(end, of: scope)
        publish()
    }

    // MARK: Drain

    func drain(over milliseconds: Int) {
        loop.assertInEventLoop()
        http.drainUnheld()
        audience.drain(over: milliseconds)
    }

    func closeAll() {
        // What is left is for subscribers that are gone now.
        _ = inbox.close()
        audience.canaries.closeAll()
        http.closeAll()
    }
}
