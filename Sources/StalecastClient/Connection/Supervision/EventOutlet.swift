import Foundation

/// Hands events to their owner, one at a time, on a queue of their own: an owner that takes its time holds up no other
/// else. When too many wait, ``deliver(_:onDrained:)`` says so, and `onDrained` is called once they are gone.
final class EventOutlet: Sendable {
    /// Events that may wait.
    static let capacity = 64

    private struct State: Sendable {
        var waiting = 0
        var isFull = false
        var isClosed = false
    }

    /// A thousand connections must not take a thousand threads, and an owner that blocks must not take one of the
    /// system's shared ones, which are as few as there are cores.
    private static let lanes = (0..<8).map { DispatchQueue(label: "stalecast.events.\($0)") }
    private static let lastLane = Locked(0)

    private let queue = DispatchQueue(label: "stalecast.connection", target: nextLane())
    private let state = Locked(State())
    private let onEvent: @Sendable (ConnectionEvent) -> Void

    init(_ onEvent: @escaping @Sendable (ConnectionEvent) -> Void) { self.onEvent = onEvent }

    private static func nextLane() -> DispatchQueue {
        lanes[
            lastLane.withLock { last in
                last = (last + 1) % lanes.count
                return last
            }]
    }

    /// - Parameter onDrained: called on any thread, if this returned true.
    /// - Returns: whether too many events wait now.
    func deliver(_ event: ConnectionEvent, onDrained: @escaping @Sendable () -> Void) -> Bool {
        let isFull = state.withLock { state in
            state.waiting += 1
            state.isFull = state.isFull || state.waiting >= Self.capacity
            return state.isFull
        }
        queue.async { [self] in
            if !state.withLock({ $0.isClosed }) { onEvent(event) }
            let drains = state.withLock { state in
                state.waiting -= 1
                defer { state.isFull = state.isFull && state.waiting > 0 }
                return state.isFull && state.waiting == 0
            }
            if drains { onDrained() }
        }
        return isFull
    }

    /// Whether too many events wait.
    var isFull: Bool { state.withLock { $0.isFull } }

    /// No event begins to be handed over after this, until ``open()``.
    func close() { state.withLock { $0.isClosed = true } }

    func open() { state.withLock { $0.isClosed = false } }
}
