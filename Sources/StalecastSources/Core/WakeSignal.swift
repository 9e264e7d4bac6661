import Synchronization

/// Wakes the one task that waits. Rings are not counted: any number before a wait make it return at once.
final class WakeSignal: Sendable {
    private struct State {
        var hasRung = false
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())

    /// Any thread.
    func ring() {
        let waiter = state.withLock { state in
            let waiter = state.waiter
            state.waiter = nil
            state.hasRung = waiter == nil
            return waiter
        }
        waiter?.resume()
    }

    /// Waits for a ring, at most `limit`, or until the task is cancelled.
    func wait(atMost limit: Duration) async {
        await withTaskGroup(of: Void.self) { group in
            // An `AsyncStream` would not do: it ends for good when a task that waits for it is cancelled, as here each time.
            group.addTask { await self.wait() }
            group.addTask { try? await Task.sleep(for: limit) }  // cancelled: the bell rang
            await group.next()
            group.cancelAll()
        }
    }

    private func wait() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    // Cancellation is asked for under the lock: its handler may have run before there was a waiter.
                    if state.hasRung || Task.isCancelled {
                        state.hasRung = false
                        return true
                    }
                    state.waiter = continuation
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            let waiter = state.withLock { state in
                defer { state.waiter = nil }
                return state.waiter
            }
            waiter?.resume()
        }
    }
}
