import NIOCore
import Synchronization

/// The connections of Control: how many are open, and how many there may be. The second may change while it serves.
package final class ControlCapacity: Sendable {
    private let most: Atomic<Int>
    private let open = Atomic(0)
    private let makeRoom = Mutex<(@Sendable (Int) -> Void)?>(nil)

    /// Up to the cap connections are served, so many more are told 503, beyond they wait in the kernel.
    private static let refusalHeadroom = 24

    package init(_ most: Int) { self.most = Atomic(max(1, most)) }

    /// The cap.
    package var limit: Int { most.load(ordering: .relaxed) }

    /// Changes the cap. Connections above it that ask nothing are closed; those that are served finish.
    package func limit(to most: Int) {
        self.most.store(max(1, most), ordering: .relaxed)
        closeExcess()
    }

    /// Closes connections above the cap that ask nothing. One that was busy at the call before may be idle now.
    package func closeExcess() {
        if excess > 0 { makeRoom.withLock { $0 }?(excess) }
    }

    /// - Parameter makeRoom: closes so many connections that ask nothing, as far as there are any.
    func follow(_ makeRoom: @escaping @Sendable (Int) -> Void) { self.makeRoom.withLock { $0 = makeRoom } }

    /// Connections above the cap; negative below it.
    private var excess: Int { open.load(ordering: .relaxed) - limit }

    var hasRoom: Bool { excess < Self.refusalHeadroom }

    /// Counts `channel` until it closes.
    ///
    /// - Returns: how many connections are above the cap with it.
    func add(_ channel: any Channel) -> Int {
        channel.closeFuture.whenComplete { _ in self.open.subtract(1, ordering: .relaxed) }
        return open.add(1, ordering: .relaxed).newValue - limit
    }
}
