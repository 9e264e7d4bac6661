import StalecastOutbound
import Synchronization
import Testing

/// Commands that let the engine's thread sleep.
@Suite(.timeLimit(.minutes(5))) struct WakingTests {
    /// Puts `count` commands that do not wake, into an engine without a request or a timer, until they all wait.
    ///
    /// On a busy machine its thread may not have fallen asleep yet, and takes them before it does. Then it is tried again.
    private func withWaiting(
        _ count: Int, _ body: (OutboundEngine, WakingLog) async throws -> Void
    ) async throws {
        try await EngineFixture.running { fixture in
            for _ in 0..<50 {
                let log = WakingLog()
                await withCheckedContinuation { done in fixture.engine.perform { done.resume() } }
                try await Task.sleep(for: .milliseconds(20))
                for number in 1...count { fixture.engine.perform(wakes: false) { log.add(number) } }
                try await Task.sleep(for: .milliseconds(100))
                if log.numbers == [] { return try await body(fixture.engine, log) }
            }
            Issue.record("the thread was woken each time")
        }
    }

    @Test func aCommandThatDoesNotWakeRunsBeforeTheNextThatDoes() async throws {
        try await withWaiting(1) { engine, log in
            await withCheckedContinuation { done in
                engine.perform {
                    log.add(2)
                    done.resume()
                }
            }
            #expect(log.numbers == [1, 2])
        }
    }

    @Test func theSixtyFourthWaitingCommandWakesTheThread() async throws {
        try await withWaiting(63) { engine, log in
            await withCheckedContinuation { done in
                engine.perform(wakes: false) {
                    log.add(64)
                    done.resume()
                }
            }
            #expect(log.numbers == Array(1...64))
        }
    }
}

/// Numbers in the order in which they came.
private final class WakingLog: Sendable {
    private let added = Mutex<[Int]>([])

    var numbers: [Int] { added.withLock(\.self) }

    func add(_ number: Int) { added.withLock { $0.append(number) } }
}
