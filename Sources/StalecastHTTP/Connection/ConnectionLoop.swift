package import NIOCore
import Synchronization

/// The connections of one event loop, and what they share. Confined to the loop.
///
/// `@unchecked Sendable`: listeners hand it to closures that run on the loop.
package final class ConnectionLoop: @unchecked Sendable {
    package let loop: any EventLoop
    private var date = HTTPDate()
    private var connections: [ObjectIdentifier: any LoopMember] = [:]
    var handshakes = HandshakeLine<TLSEntrance>()
    /// Looks at deadlines, since a timer per request costs more than a fetch; nil while there is no connection.
    private var sweep: RepeatedTask?
    /// Completed when the last connection is gone.
    private var emptied: EventLoopPromise<Void>?
    /// Connections that could make room, for other threads: a new one counts at once, the rest as of the last sweep.
    private let spare = Atomic(0)

    private static let sweepInterval: TimeAmount = .milliseconds(500)
    /// Pause after a search that found no silent connection to close, in nanoseconds: a search passes over all
    /// connections.
    private static let lookInterval: UInt64 = 100_000_000
    private var noneBefore: UInt64 = 0

    package init(_ loop: any EventLoop) { self.loop = loop }

    package var dateText: String { date.string() }
    package var count: Int { connections.count }

    func add(_ connection: any LoopMember) {
        loop.assertInEventLoop()
        connections[ObjectIdentifier(connection)] = connection
        spare.add(1, ordering: .relaxed)
        guard sweep == nil else { return }
        sweep = loop.scheduleRepeatedTask(initialDelay: Self.sweepInterval, delay: Self.sweepInterval) { [self] _ in
            let now = NIODeadline.now().uptimeNanoseconds
            for connection in connections.values { connection.tick(at: now) }
            for entrance in handshakes.overdue(at: now) { entrance.letGo(.displaced) }
            spare.store(connections.values.count { $0.spareSince != nil }, ordering: .relaxed)
        }
    }

    /// Begins the handshake that has waited longest: a place is free.
    func seatNext() {
        guard let next = handshakes.next(at: NIODeadline.now().uptimeNanoseconds) else { return }
        // Deferred: this is called while another handshake ends.
        loop.assumeIsolated().execute { next.begin() }
    }

    func remove(_ connection: any LoopMember) {
        loop.assertInEventLoop()
        connections[ObjectIdentifier(connection)] = nil
        guard connections.isEmpty else { return }
        spare.store(0, ordering: .relaxed)
        sweep?.cancel()
        sweep = nil
        emptied?.succeed()
        emptied = nil
    }

    /// Ends what is idle, now and from now on; what has begun finishes.
    ///
    /// - Returns: completes when no connection is left.
    package func drain() -> EventLoopFuture<Void> {
        loop.assertInEventLoop()
        let now = NIODeadline.now().uptimeNanoseconds
        for connection in connections.values { connection.drain(at: now) }
        guard !connections.isEmpty else { return loop.makeSucceededVoidFuture() }
        let promise = emptied ?? loop.makePromise()
        emptied = promise
        return promise.futureResult
    }

    /// Ends what is idle, but leaves streams and held polls alone: their holder ends them. Requests that have begun
    /// are answered; handshakes end, and HTTP/2 connections end with their last stream.
    package func drainUnheld() {
        loop.assertInEventLoop()
        let now = NIODeadline.now().uptimeNanoseconds
        for connection in connections.values where !connection.isHolding { connection.drain(at: now) }
    }

    /// Closes soon a connection that has asked nothing for so long. Any thread.
    ///
    /// - Returns: false when there is none, as of the last sweep.
    package func makeRoomSoon(silentFor silence: Duration) -> Bool {
        guard claimSpare() else { return false }
        loop.execute { [self] in _ = makeRoom(for: 1, silentFor: silence) }
        return true
    }

    /// Closes connections that ask nothing, so that new ones have room: those that have waited longest for a whole request
    /// head, then those that have been idle longest after an answer. A connection that is being served is never closed.
    ///
    /// - Parameters:
    ///   - count: how many; none where it is not positive.
    ///   - silence: for so long at least.
    /// - Returns: false when there are not so many, because the rest is being served.
    package func makeRoom(for count: Int, silentFor silence: Duration) -> Bool {
        close(silent: count, for: silence) >= count
    }

    /// Closes idle connections, however short they have been idle, here and then in the other loops. Each loop searches
    /// on its own thread, which alone knows what is idle now.
    ///
    /// - Returns: completes on this loop, when they are closed; false when there are not so many.
    package func makeRoom(for count: Int, orIn others: [ConnectionLoop]) -> EventLoopFuture<Bool> {
        let missing = count - close(silent: count, for: .zero)
        // NIO completes a channel's `closeFuture` in the loop's next turn.
        return loop.flatSubmit { [self] in
            guard missing > 0, let next = others.first else { return loop.makeSucceededFuture(missing <= 0) }
            let rest = Array(others.dropFirst())
            return next.loop.flatSubmit { next.makeRoom(for: missing, orIn: rest) }.hop(to: loop)
        }
    }

    /// - Returns: how many were closed.
    private func close(silent count: Int, for silence: Duration) -> Int {
        loop.assertInEventLoop()
        if count <= 0 { return 0 }
        let (now, least) = (NIODeadline.now().uptimeNanoseconds, UInt64(clamping: Int64(silence / .nanoseconds(1))))
        if least > 0, now < noneBefore { return 0 }
        let silent = (oldest { $0.headBegan } + oldest { $0.idleSince }).filter { now - min(now, $0.since) >= least }
        if silent.isEmpty { noneBefore = now + Self.lookInterval }
        let closed = silent.prefix(count).map(\.member)
        for member in closed { member.close() }
        return closed.count
    }

    private func oldest(by since: (any LoopMember) -> UInt64?) -> [(member: any LoopMember, since: UInt64)] {
        connections.values.compactMap { member in since(member).map { (member, $0) } }.sorted { $0.1 < $1.1 }
    }

    /// Takes one connection off the count. Any thread.
    ///
    /// - Returns: false when there is none.
    private func claimSpare() -> Bool {
        var count = spare.load(ordering: .relaxed)
        while count > 0 {
            let (isDone, found) = spare.weakCompareExchange(
                expected: count, desired: count - 1, ordering: .relaxed)
            if isDone { return true }
            count = found
        }
        return false
    }

    package func closeAll() {
        loop.assertInEventLoop()
        for connection in connections.values { connection.close() }
    }
}

/// Member of an event loop's watch: an HTTP connection, or a connection that may become one.
protocol LoopMember: AnyObject {
    /// Time when the wait for the client's handshake, PROXY header or request head began, in nanoseconds of the
    /// monotonic clock; nil while none of these is awaited.
    var headBegan: UInt64? { get }
    /// End of the last answer; nil where no other request was served, or one is being served.
    var idleSince: UInt64? { get }
    var isHolding: Bool { get }
    /// Some time passed; nanoseconds of the monotonic clock.
    func tick(at now: UInt64)
    /// Ends an idle connection, or finishes what has begun: the daemon is stopping.
    func drain(at now: UInt64)
    func close()
}

extension LoopMember {
    var idleSince: UInt64? { nil }
    var isHolding: Bool { false }
    /// Time since which the connection asks nothing; nil while it is served.
    fileprivate var spareSince: UInt64? { headBegan ?? idleSince }
}
