import ArgumentParser
import CLinux
import Dispatch
import StalecastEdge
import StalecastHub
import Synchronization

/// One run of Edge's hot loop: announcements to subscribers on loopback, one at a time, then the end. It counts instead of
/// timing, so that two commits can be compared on any machine: `deploy/bench.sh` runs it under callgrind several times, and
/// `deploy/bench/figures.py` makes the differences.
@main
struct Deliver: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stalecast-benchmarks",
        abstract: "Announces changes to subscribers in this process; run it under callgrind.")

    @Option(help: "Streams on one topic.")
    var subscribers = 200

    @Option(help: "Changes announced, each after the one before has reached all.")
    var announcements = 50

    @Option(help: "Topics each stream names; with more than one the engine's general path is taken.")
    var topics = 1

    func validate() throws {
        guard subscribers > 0, announcements >= 0, (1...64).contains(topics) else {
            throw ValidationError("subscribers must be positive, announcements not negative, topics 1 to 64")
        }
    }

    /// Blocks its thread, which is the main thread: that of an asynchronous `main` ends once the dispatch library
    /// serves it, and valgrind crashes on that.
    func run() throws {
        let outcome = Mutex<Result<Void, any Error>?>(nil)
        let done = DispatchSemaphore(value: 0)
        Task.detached { [self] in
            do {
                try await deliver()
                outcome.withLock { $0 = .success(()) }
            } catch {
                outcome.withLock { $0 = .failure(error) }
            }
            done.signal()
        }
        done.wait()
        try outcome.withLock { try $0?.get() }
    }

    private func deliver() async throws {
        _ = stalecast_raise_descriptor_limit()
        let bench = try await BenchEdge(topics: topics)
        let readers = try LoopbackSubscribers(count: subscribers, port: bench.port, target: bench.target)
        await bench.wait { $0.streams == subscribers }
        for number in 0..<announcements {
            bench.announce()
            await bench.wait { $0.deliveries[.sse, default: 0] == (number + 1) * subscribers }
        }
        try await bench.stop()
        print("\(announcements) announcements to \(subscribers) streams, \(readers.bytesRead) bytes read")
    }
}
