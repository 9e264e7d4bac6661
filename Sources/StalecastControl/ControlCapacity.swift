import NIOCore
import Synchronization

/// The connections of Control: how many are open, and how many there may be. The second may change while it serves.
package final class ControlCapacity: Sendable {
    /// Closes so many connections that ask nothing, and completes when they are counted out; false when there are not so
    /// many.
    typealias MakeRoom = @Sendable (Int) -> EventLoopFuture<Bool>

    private struct Count {
        var open = 0
        /// Connections that are looked for, to be closed.
        var leaving = 0
    }

    private struct Follower {
        var makeRoom: MakeRoom?
    }

    private let most: Atomic<Int>
    private let count = Mutex(Count())
    /// Lies in a struct: a function that is in a mutex by itself is wrapped once more by each access, until a call of it, or
    /// its release, overflows the stack.
    private let follower = Mutex(Follower())

    /// Connections above the cap that are answered with 503; further ones wait in the kernel.
    private static let refusalHeadroom = 24

    package init(_ most: Int) { self.most = Atomic(max(1, most)) }

    package var limit: Int { most.load(ordering: .relaxed) }

    /// Changes the cap. Connections above it that ask nothing are closed; those that are served finish.
    package func limit(to most: Int) {
        self.most.store(max(1, most), ordering: .relaxed)
        closeExcess()
    }

    /// Closes connections above the cap that ask nothing. One that was busy at the call before may be idle now.
    package func closeExcess() {
        if let makeRoom = follower.withLock({ $0.makeRoom }) { _ = closeExcess(adding: 0, makeRoom) }
    }

    func follow(_ makeRoom: @escaping MakeRoom) { follower.withLock { $0.makeRoom = makeRoom } }

    var hasRoom: Bool { count.withLock { $0.open - limit < Self.refusalHeadroom } }

    /// Counts `channel` until it closes. Above the cap a connection that asks nothing makes room for it.
    ///
    /// - Returns: nil when there is room; else false when there is none, because all others are being served.
    func add(_ channel: any Channel, _ makeRoom: MakeRoom) -> EventLoopFuture<Bool>? {
        countOut(channel)
        return closeExcess(adding: 1, makeRoom)?.map { [self] hasRoom in
            // Another connection may have ended meanwhile.
            hasRoom || count.withLock { $0.open <= limit }
        }
    }

    /// Counts a stream, for which no connection makes room.
    ///
    /// - Returns: false when it is above the cap.
    func add(stream: any Channel) -> Bool {
        countOut(stream)
        return count.withLock { count in
            count.open += 1
            return count.open <= limit
        }
    }

    private func countOut(_ channel: any Channel) {
        channel.closeFuture.whenComplete { _ in self.count.withLock { $0.open -= 1 } }
    }

    private func closeExcess(adding new: Int, _ makeRoom: MakeRoom) -> EventLoopFuture<Bool>? {
        // Two calls at a time must not close two connections for one place.
        let excess = count.withLock { count in
            count.open += new
            let excess = max(0, count.open - count.leaving - limit)
            count.leaving += excess
            return excess
        }
        guard excess > 0 else { return nil }
        let room = makeRoom(excess)
        room.whenComplete { _ in self.count.withLock { $0.leaving -= excess } }
        return room
    }
}
