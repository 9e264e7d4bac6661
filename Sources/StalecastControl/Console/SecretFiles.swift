import Dispatch
import Synchronization

/// Reads clients' secrets from files. A file system that hangs delays the sign-ins that need that file, and blocks
/// only a thread of its own.
package final class SecretFiles: Sendable {
    /// Reason why there is no secret; a sentence.
    package struct Hanging: Error, CustomStringConvertible {
        package let description: String
    }

    private typealias Waiter = CheckedContinuation<String, any Error>

    /// One read of a file, shared by all who wait for it.
    private struct Reading {
        let since: ContinuousClock.Instant
        var waiters: [Int: Waiter] = [:]
    }

    private struct State {
        var readings: [String: Reading] = [:]
        var number = 0
    }

    private let patience: Duration
    private let contents: @Sendable (String) throws -> String
    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "stalecast.signin.files", attributes: .concurrent)

    /// - Parameters:
    ///   - patience: time after which a read hangs.
    ///   - contents: reads a file; it may block.
    package init(patience: Duration, contents: @escaping @Sendable (String) throws -> String) {
        self.patience = patience
        self.contents = contents
    }

    /// - Throws: what the file's reading throws, and ``Hanging`` when it takes too long, then at once.
    package func read(_ path: String) async throws -> String {
        try await withCheckedThrowingContinuation { waiter in
            let (number, begins, hangs) = state.withLock { state in
                state.number += 1
                let begins = state.readings[path] == nil
                var reading = state.readings[path] ?? Reading(since: .now)
                let hangs = ContinuousClock.now - reading.since > patience
                // A reading that hangs stays in the table: another one would block one more thread for nothing.
                if !hangs { reading.waiters[state.number] = waiter }
                state.readings[path] = reading
                return (state.number, begins, hangs)
            }
            if hangs { return waiter.resume(throwing: hanging(path)) }
            if begins { queue.async { self.finish(path, Result { try self.contents(path) }) } }
            let end = DispatchTime.now() + .milliseconds(Int(patience / .milliseconds(1)))
            queue.asyncAfter(deadline: end) { self.giveUp(path, number) }
        }
    }

    private func hanging(_ path: String) -> Hanging { Hanging(description: "reading \(path) does not end") }

    private func finish(_ path: String, _ result: Result<String, any Error>) {
        let reading = state.withLock { $0.readings.removeValue(forKey: path) }
        for waiter in (reading?.waiters ?? [:]).values { waiter.resume(with: result) }
    }

    private func giveUp(_ path: String, _ number: Int) {
        let waiter = state.withLock { $0.readings[path]?.waiters.removeValue(forKey: number) }
        waiter?.resume(throwing: hanging(path))
    }
}
