package import NIOCore
import Synchronization

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
    /// Connections that could make room, for other loops: a new one counts at once, the rest as of the last sweep.
    private let spare = Atomic(0)

    private static let sweepInterval: TimeAmount = .milliseconds(500)

    package init(_ loop: any EventLoop) { self.loop = loop }

    /// The time as HTTP writes it.
    package var dateText: String { date.string() }
    package var count: Int { connections.count }

    func add(_ connection: any LoopMember) {
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

    /// Places became free: who waits longest goes on.
    func seatNext() {
        guard let next = handshakes.next(at: NIODeadline.now().uptimeNanoseconds) else { return }
        // Not within another's end.
        loop.assumeIsolated().execute { next.begin() }
    }

    func remove(_ connection: any LoopMember) {
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

    /// Closes a connection that asks nothing, so that a new one has room: the one that has waited longest for a whole request
    /// head, or else the one that has been idle longest after an answer. A connection that is being served is never closed.
    ///
    /// - Parameter others: loops that are asked where this one has none; they close theirs soon.
    /// - Returns: false when every connection is being served.
    package func makeRoom(orIn others: some Collection<ConnectionLoop> = EmptyCollection()) -> Bool {
        if let oldest = oldest(by: { $0.headBegan }) ?? oldest(by: { $0.idleSince }) {
            oldest.close()
            return true
        }
        guard let other = others.first(where: { $0 !== self && $0.claimsSpare() }) else { return false }
        other.loop.execute { _ = other.makeRoom() }
        return true
    }

    private func oldest(by since: (any LoopMember) -> UInt64?) -> (any LoopMember)? {
        connections.values.compactMap { member in since(member).map { (member, $0) } }.min { $0.1 < $1.1 }?.0
    }

    /// Takes one connection off the count; false when none is left. Any thread.
    private func claimsSpare() -> Bool {
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
        for connection in connections.values { connection.close() }
    }
}

/// What an event loop looks after: an HTTP connection, or what may become one.
protocol LoopMember: AnyObject {
    /// When the client was first waited for, in nanoseconds of the monotonic clock: for a handshake, a PROXY header or a
    /// request head. nil when none of these is awaited.
    var headBegan: UInt64? { get }
    /// When the last answer ended; nil where no other request was served, or one is being served.
    var idleSince: UInt64? { get }
    /// Holds a stream or a poll.
    var isHolding: Bool { get }
    /// Some time passed; nanoseconds of the monotonic clock.
    func tick(at now: UInt64)
    /// The daemon is stopping: end what is idle, finish what has begun.
    func drain(at now: UInt64)
    func close()
}

extension LoopMember {
    var idleSince: UInt64? { nil }
    var isHolding: Bool { false }
    /// Since when the connection asks nothing; nil while it is served.
    fileprivate var spareSince: UInt64? { headBegan ?? idleSince }
}
