import StalecastOutbound
import Synchronization
import Testing

/// Commands that let the engine's thread sleep.
@Suite(.timeLimit(.minutes(1))) struct WakingTests {
    /// The engine has no request and no timer, so that only a command can wake its thread.
    private func withSleepingEngine(_ body: (OutboundEngine, WakingLog) async throws -> Void) async throws {
        try await EngineFixture.running { fixture in
            let log = WakingLog()
            await withCheckedContinuation { done in fixture.engine.perform { done.resume() } }
            // The thread falls asleep right after its last command.
            try await Task.sleep(for: .milliseconds(100))
            try await body(fixture.engine, log)
        }
    }

    @Test func aCommandThatDoesNotWakeRunsBeforeTheNextThatDoes() async throws {
        try await withSleepingEngine { engine, log in
            engine.perform(wakes: false) { log.add(1) }
            try await Task.sleep(for: .milliseconds(200))
            #expect(log.numbers == [], "the thread was woken")
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
        try await withSleepingEngine { engine, log in
            for number in 1...63 { engine.perform(wakes: false) { log.add(number) } }
            try await Task.sleep(for: .milliseconds(200))
            #expect(log.numbers == [], "the thread was woken")
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
