import CLinux
import DequeModule
import Dispatch
import Foundation
import Synchronization

/// Two threads that verify signatures, which any stranger can request. They run at a low priority, so that a flood of
/// tokens delays tokens, not deliveries.
final class VerifierThreads: Sendable {
    typealias Job = @Sendable () -> Void

    private struct State: Sendable {
        var isStarted = false
        var isStopped = false
        var jobs: Deque<(job: Job, weight: Int)> = []
        var weight = 0
    }

    /// Bytes that wait; beyond them it is "not now". After a restart no client is known: 20,000 clients that come at
    /// once each with a token of 1 KB all get their turn.
    static let maxWaiting = 32 << 20
    /// Weight of a job itself.
    private static let jobWeight = 512
    /// A tenth of a core's time where another thread wants all of it, see sched(7).
    private static let nice: Int32 = 10

    private let state = Mutex(State())
    private let news = DispatchSemaphore(value: 0)

    /// The first job starts the threads.
    ///
    /// - Parameter weight: bytes that the job holds.
    /// - Returns: false when too many wait.
    func run(weight: Int, _ job: @escaping Job) -> Bool {
        let weight = weight + Self.jobWeight
        let (isTaken, isFirst) = state.withLock { state in
            guard state.weight + weight <= Self.maxWaiting else { return (false, false) }
            state.jobs.append((job, weight))
            state.weight += weight
            defer { state.isStarted = true }
            return (true, !state.isStarted)
        }
        if isFirst { for number in 0..<2 { start(number) } }
        if isTaken { news.signal() }
        return isTaken
    }

    /// Stops the threads, as the owner's last call; jobs that wait are still run.
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
            guard let next = state.jobs.popFirst() else { return nil }
            state.weight -= next.weight
            return next.job
        }
        job?()
        return job != nil || state.withLock { !$0.isStopped }
    }
}
