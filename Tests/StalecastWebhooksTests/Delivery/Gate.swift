import Foundation
import Synchronization

/// Holds threads until it is opened, then lets all through.
final class Gate: Sendable {
    private let condition = NSCondition()
    private let state = Mutex(false)

    var isOpen: Bool { state.withLock { $0 } }

    /// Blocks, half a minute at most.
    func pass() {
        condition.lock()
        defer { condition.unlock() }
        let deadline = Date(timeIntervalSinceNow: 30)
        while !isOpen, condition.wait(until: deadline) {}
    }

    func open() {
        condition.lock()
        defer { condition.unlock() }
        state.withLock { $0 = true }
        condition.broadcast()
    }
}
