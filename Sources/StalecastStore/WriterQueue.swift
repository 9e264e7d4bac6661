import Dispatch
import GRDB
import Glibc
import Synchronization

/// Queue on which the store's writer works, and a place to run a publish from its request to its answer.
///
/// A publish that comes while nothing else does wins nothing by passing from thread to thread: parsing, the commit, the
/// audit line and the answer follow each other. With this executor they run on the writer's own thread and inside its
/// database access, as one piece of work. One publish has it at a time. Others that come meanwhile are prepared on the
/// threads that all tasks share, and meet in the writer's next transaction.
package final class WriterQueue: TaskExecutor {
    private let pool: DatabasePool
    /// Queue below the pool's own; see ``StoreConnection/inTurn(_:)``.
    private let queue: DispatchQueue
    private let isTaken = Atomic(false)
    /// Thread that runs a job of this executor now; 0 for none.
    private let runner = Atomic<UInt>(0)

    init(_ pool: DatabasePool, above queue: DispatchQueue) { (self.pool, self.queue) = (pool, queue) }

    /// - Returns: false while another publish has it.
    func take() -> Bool {
        isTaken.compareExchange(expected: false, desired: true, ordering: .acquiringAndReleasing).exchanged
    }

    /// Gives it up, after the publish.
    package func leave() { isTaken.store(false, ordering: .releasing) }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        // First through `queue`, as all work that waits for the writer, so that the turns keep their order.
        queue.async {
            self.pool.asyncWriteWithoutTransaction { _ in
                self.runner.store(pthread_self(), ordering: .relaxed)
                job.runSynchronously(on: self.asUnownedTaskExecutor())
                self.runner.store(0, ordering: .relaxed)
            }
        }
    }

    /// Does `work` with the writer's connection now, if the caller runs on this executor.
    ///
    /// - Returns: false when it does not, and nothing was done.
    func doIfCurrent(_ work: (Database) -> Void) -> Bool {
        guard runner.load(ordering: .relaxed) == pthread_self() else { return false }
        // The job runs inside an access to the writer, where GRDB's ordinary writes trap.
        pool.unsafeReentrantWrite(work)
        return true
    }
}

extension TemplateStore {
    /// Writer's queue for one publish, if nothing waits for the writer; nil: run it anywhere. Call ``WriterQueue/leave()``
    /// when its answer is made. What runs there must be short, and must not block on the store's writer.
    package func takeIdleWriter() -> WriterQueue? {
        guard authority == nil, state.withLock({ $0.waiting == 0 && $0.refusal == nil }) else { return nil }
        return connection.writer.take() ? connection.writer : nil
    }
}
