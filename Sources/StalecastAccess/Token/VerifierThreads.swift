import CLinux
import Dispatch
import Foundation
import Synchronization

/// Two threads for signatures, which anybody can have checked by asking. Under load all other threads run before them, so
/// that a flood of tokens delays tokens, not deliveries.
final class VerifierThreads: Sendable {
    typealias Job = @Sendable () -> Void

    private struct State: Sendable {
        var isStarted = false
        var isStopped = false
        /// Those before `next` are begun.
        var jobs: [Job] = []
        var next = 0
    }

    /// Beyond so many that wait it is "not now".
    static let maxWaiting = 1024
    /// A tenth of a core's time where somebody else wants all of it, see sched(7).
    private static let nice: Int32 = 10

    private let state = Mutex(State())
    private let news = DispatchSemaphore(value: 0)

    /// The first job starts the threads.
    ///
    /// - Returns: false when too many wait.
    func run(_ job: @escaping Job) -> Bool {
        let (isTaken, isFirst) = state.withLock { state in
            guard state.jobs.count - state.next < Self.maxWaiting else { return (false, false) }
            state.jobs.append(job)
            defer { state.isStarted = true }
            return (true, !state.isStarted)
        }
        if isFirst { for number in 0..<2 { start(number) } }
        if isTaken { news.signal() }
        return isTaken
    }

    /// Whoever owns the threads calls it last; what waits is still run.
    func stop() {
        state.withLock { $0.isStopped = true }
        for _ in 0..<2 { news.signal() }
    }

    private func start(_ number: Int) {
        Thread.detachNewThread { [self] in
            stalecast_name_thread("tokens-\(number)")
            stalecast_nice_thread(Self.nice)
            repeat { news.wait() } while work()
        }
    }

    /// - Returns: false when there will be no more.
    private func work() -> Bool {
        let job = state.withLock { state -> Job? in
            guard state.next < state.jobs.count else { return nil }
            defer {
                state.next += 1
                if state.next == state.jobs.count { (state.jobs, state.next) = ([], 0) }
            }
            return state.jobs[state.next]
        }
        job?()
        return job != nil || state.withLock { !$0.isStopped }
    }
}
