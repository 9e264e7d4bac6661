package import NIOCore

/// The connections of one event loop, and what they share. Confined to the loop.
///
/// `@unchecked Sendable`: listeners hand it to closures that run on the loop.
package final class ConnectionLoop: @unchecked Sendable {
    package let loop: any EventLoop
    private var date = HTTPDate()
    private var connections: [ObjectIdentifier: any LoopMember] = [:]
    /// The handshakes of this loop.
    var handshakes = HandshakeLine<TLSEntrance>()
    /// Looks at deadlines, since a timer per request costs more than a fetch; nil while there is no connection.
    private var sweep: RepeatedTask?
    /// Completed when the last connection is gone.
    private var emptied: EventLoopPromise<Void>?

    private static let sweepInterval: TimeAmount = .milliseconds(500)

    package init(_ loop: any EventLoop) { self.loop = loop }

    /// The time as HTTP writes it.
    package var dateText: String { date.string() }
    package var count: Int { connections.count }

    func add(_ connection: any LoopMember) {
        connections[ObjectIdentifier(connection)] = connection
        guard sweep == nil else { return }
        sweep = loop.scheduleRepeatedTask(initialDelay: Self.sweepInterval, delay: Self.sweepInterval) { [self] _ in
            let now = NIODeadline.now().uptimeNanoseconds
            for connection in connections.values { connection.tick(at: now) }
            for entrance in handshakes.overdue(at: now) { entrance.letGo(.displaced) }
        }
    }

    /// Places became free: who waits longest goes on.
    func seatNext() {
        guard let next = handshakes.next(at: NIODeadline.now().uptimeNanoseconds) else { return }
        // Not within another's end.
        loop.assumeIsolated().execute { next.begin() }
    }

    func remove(_ connection: any LoopMember) {
        connections[ObjectIdentifier(connection)] = nil
        guard connections.isEmpty else { return }
        sweep?.cancel()
        sweep = nil
        emptied?.succeed()
        emptied = nil
    }

    /// Ends what is idle, now and from now on; what has begun finishes.
    ///
    /// - Returns: completes when no connection is left.
    package func drain() -> EventLoopFuture<Void> {
        let now = NIODeadline.now().uptimeNanoseconds
        for connection in connections.values { connection.drain(at: now) }
        guard !connections.isEmpty else { return loop.makeSucceededVoidFuture() }
        let promise = emptied ?? loop.makePromise()
        emptied = promise
        return promise.futureResult
    }

    /// Ends what is idle, but leaves streams and held polls alone: whoever holds them ends them. Requests that have begun
    /// are answered; handshakes end, and HTTP/2 connections end with their last stream.
    package func drainUnheld() {
        let now = NIODeadline.now().uptimeNanoseconds
        for connection in connections.values where !connection.isHolding { connection.drain(at: now) }
    }

    /// Closes the connection that has waited longest without a whole request head, so that a new one has room.
    ///
    /// - Returns: false when every connection of this loop is between two requests or being served.
    package func closeOldestHead() -> Bool {
        let waiting = connections.values.compactMap { member in member.headBegan.map { (member, $0) } }
        guard let oldest = waiting.min(by: { $0.1 < $1.1 })?.0 else { return false }
        oldest.close()
        return true
    }

    package func closeAll() {
        for connection in connections.values { connection.close() }
    }
}

/// What an event loop looks after: an HTTP connection, or what may become one.
protocol LoopMember: AnyObject {
    /// When the client was first waited for, in nanoseconds of the monotonic clock: for a handshake, a PROXY header or a
    /// request head. nil when none of these is awaited.
    var headBegan: UInt64? { get }
    /// Holds a stream or a poll.
    var isHolding: Bool { get }
    /// Some time passed; nanoseconds of the monotonic clock.
    func tick(at now: UInt64)
    /// The daemon is stopping: end what is idle, finish what has begun.
    func drain(at now: UInt64)
    func close()
}

extension LoopMember {
    var isHolding: Bool { false }
}
