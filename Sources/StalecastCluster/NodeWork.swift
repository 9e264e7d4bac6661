/// Work that a node's state machines ask for. It belongs to the one task group that ``ClusterNode/run()`` waits for.
struct NodeWork {
    typealias Job = @Sendable (isolated ClusterNode) async -> Void

    /// Jobs that have not begun. There are few, because each state machine asks for one job at a time.
    let jobs: AsyncStream<Job>
    private let continuation: AsyncStream<Job>.Continuation
    /// Watch on the log: a job like the others, which the next one ends.
    private(set) var watch: Task<Void, Never>?

    /// Readers and publishers are told when their time is up.
    var isKeepingTime = false

    init() { (jobs, continuation) = AsyncStream.makeStream(of: Job.self) }

    func begin(_ job: @escaping Job) { continuation.yield(job) }

    mutating func replaceWatch(by watch: Task<Void, Never>) {
        self.watch?.cancel()
        self.watch = watch
        begin { _ in
            await withTaskCancellationHandler {
                await watch.value
            } onCancel: {
                watch.cancel()
            }
        }
    }

    /// Takes no more jobs, and ends the watch, also one whose job was not taken any more.
    func end() {
        watch?.cancel()
        continuation.finish()
    }
}
