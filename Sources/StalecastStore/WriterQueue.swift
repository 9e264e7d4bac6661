import Dispatch
import Synchronization

/// Queue on which the store's writer works, and a place to run a publish from its request to its answer.
///
/// A publish that comes while nothing else does wins nothing by passing from thread to thread: parsing, the commit, the
/// audit line and the answer follow each other. With this executor they run on the writer's own thread, one after the
/// other. One publish has it at a time. Others that come meanwhile are prepared on the threads that all tasks share,
/// and meet in the writer's next transaction.
package final class WriterQueue: TaskExecutor {
    let queue = DispatchQueue(label: "stalecast.store.writer")
    private let isTaken = Atomic(false)

    /// - Returns: false while another publish has it.
    func take() -> Bool {
        isTaken.compareExchange(expected: false, desired: true, ordering: .acquiringAndReleasing).exchanged
    }

    /// Gives it up, after the publish.
    package func leave() { isTaken.store(false, ordering: .releasing) }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

extension TemplateStore {
    /// Writer's queue for one publish, if nothing waits for the writer; nil: run it anywhere. Call ``WriterQueue/leave()``
    /// when it was answered. What runs there must be short, and must not block on the store's writer.
    package func takeIdleWriter() -> WriterQueue? {
        guard authority == nil, state.withLock({ $0.waiting == 0 && $0.refusal == nil }) else { return nil }
        return connection.writer.take() ? connection.writer : nil
    }
}
