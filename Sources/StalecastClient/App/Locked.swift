import Foundation

/// State that several threads share, reached only under a lock. `NSLock` instead of `Mutex`, because that needs iOS 18.
///
/// `@unchecked`: `state` is touched only between `lock()` and `unlock()`.
final class Locked<State: Sendable>: @unchecked Sendable {
    private let lock = NSLock()
    private var state: State

    init(_ state: State) { self.state = state }

    /// Runs `body` alone. It must neither wait nor call out: effects come after.
    func withLock<Result>(_ body: (inout State) throws -> Result) rethrows -> Result {
        lock.lock()
        defer { lock.unlock() }
        return try body(&state)
    }
}
