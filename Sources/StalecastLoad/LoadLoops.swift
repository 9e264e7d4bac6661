import CLinux
import Foundation
import Synchronization

/// The loops of one load, each on a thread of its own until ``end()``, and the command that waits for what they count.
package final class LoadLoops: Sendable {
    private let stopped = Atomic<Bool>(false)
    private let left = Atomic<Int>(0)

    /// Interval at which the state is read while waiting; latencies are stamped by the loops.
    static let glance: Duration = .milliseconds(20)

    /// True when the loops shall close their connections and return.
    var isStopped: Bool { stopped.load(ordering: .acquiring) }

    /// Starts a loop for each share of the connections; `run` returns when it ``isStopped``.
    func start(_ name: String, _ shares: [Range<Int>], _ run: @escaping @Sendable (Int, Range<Int>) -> Void) {
        for (number, share) in shares.enumerated() {
            left.add(1, ordering: .acquiringAndReleasing)
            Thread.detachNewThread {
                stalecast_name_thread("\(name)-\(number)")
                run(number, share)
                self.left.subtract(1, ordering: .acquiringAndReleasing)
            }
        }
    }

    /// Ends the loops and waits for that.
    package func end() async {
        stopped.store(true, ordering: .releasing)
        while left.load(ordering: .acquiring) > 0 {
            do { try await Task.sleep(for: Self.glance) } catch { return }  // cancelled: the process is ending
        }
    }
}

extension Range<Int> {
    /// Ranges of so many parts that differ by one at the most.
    func shares(_ count: Int) -> [Range<Int>] {
        (0..<count).map { lowerBound + $0 * self.count / count..<lowerBound + ($0 + 1) * self.count / count }
    }
}
