import Foundation
import StalecastClient
import Synchronization

/// A clock that stands still until it is moved, and chance that is not left to chance.
final class TestClock: Sendable {
    private struct Sleeper: Sendable {
        let due: Date
        let continuation: CheckedContinuation<Void, any Error>
    }

    private struct State: Sendable {
        var now: Date
        var random: Double
        var sleepers: [UUID: Sleeper] = [:]
    }

    private let state: Mutex<State>

    init(now: Date = Date(timeIntervalSince1970: 1_800_000_000), random: Double = 0.5) {
        state = Mutex(State(now: now, random: random))
    }

    var now: Date { state.withLock { $0.now } }

    /// Value of the environment's next random numbers.
    var random: Double {
        get { state.withLock { $0.random } }
        set { state.withLock { $0.random = newValue } }
    }

    /// Seconds that sleepers still have to wait, the soonest first.
    var pending: [TimeInterval] {
        state.withLock { state in state.sleepers.values.map { $0.due.timeIntervalSince(state.now) }.sorted() }
    }

    /// Moves the clock and wakes the tasks that slept until then.
    func advance(by seconds: TimeInterval) {
        let woken = state.withLock { state in
            state.now.addTimeInterval(seconds)
            let woken = state.sleepers.filter { $0.value.due <= state.now }
            for id in woken.keys { state.sleepers[id] = nil }
            return woken.values.sorted { $0.due < $1.due }
        }
        for sleeper in woken { sleeper.continuation.resume() }
    }

    var environment: ClientEnvironment {
        ClientEnvironment(
            now: { self.now }, sleep: { try await self.sleep($0) }, random: { self.random })
    }

    private func sleep(_ seconds: TimeInterval) async throws {
        let id = UUID()
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let isOver = state.withLock { state in
                    if seconds <= 0 { return true }
                    state.sleepers[id] = Sleeper(due: state.now.addingTimeInterval(seconds), continuation: continuation)
                    return false
                }
                if isOver { return continuation.resume() }
                if Task.isCancelled { cancel(id) }
            }
        } onCancel: {
            cancel(id)
        }
    }

    private func cancel(_ id: UUID) {
        state.withLock { state in state.sleepers.removeValue(forKey: id) }?.continuation.resume(
            throwing: CancellationError())
    }
}

/// A directory of its own for one test.
func scratchDirectory() -> URL {
    FileManager.default.temporaryDirectory.appendingPathComponent("stalecast-test-\(UUID().uuidString)")
}

extension StalecastApp {
    /// An app that talks to `server`, in a directory of its own unless one is given.
    static func test(
        _ server: any HTTPTransport, clock: TestClock? = nil, directory: URL = scratchDirectory(),
        name: String = "test", edit: (inout StalecastOptions) -> Void = { _ in }
    ) -> StalecastApp {
        // The port has no listener: each connection is refused.
        var options = StalecastOptions(endpoint: URL(string: "http://127.0.0.1:1")!)
        options.transport = server
        options.cacheDirectory = directory
        edit(&options)
        return StalecastApp(name: name, options: options, environment: clock?.environment ?? .live)
    }

    /// The configuration of the default namespace.
    var config: RemoteConfig { RemoteConfig.remoteConfig(app: self) }
}
