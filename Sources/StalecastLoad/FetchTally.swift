import Synchronization

/// Counts of the loops of `load fetch`; they write them once per turn, the command reads them.
package final class FetchTally: Sendable {
    package struct Counts: Sendable {
        package init() {}

        /// Clients whose connection stands and was greeted.
        package var ready = 0
        /// Connections that ended before they stood.
        package var refused = 0
        /// Connections that ended after they stood.
        package var dead = 0
        package var firstFailure: LoadTally.Failure?

        package mutating func add(_ other: Counts) {
            ready += other.ready
            refused += other.refused
            dead += other.dead
            firstFailure = firstFailure ?? other.firstFailure
        }
    }

    /// A storm and what became of it.
    package struct Storm: Sendable {
        package var number = 0
        /// Time of the first planned fetch; nanoseconds of the monotonic clock.
        var beginsAt: UInt64 = 0
        /// The version that was acknowledged; an answer with an older one is stale.
        package var version: Int64 = 0
        package var expected = 0
        /// Nanoseconds from the planned start until the answer's last byte was read, one per good answer.
        package var latencies: [UInt64] = []
        /// Answers with another status than 200, and fetches that were not answered.
        package var failed = 0
        package var stale = 0
        /// Answers that differ from others of the same context and version.
        package var different = 0
        package var bytes = 0
        var lastAt: UInt64 = 0

        package var isComplete: Bool { latencies.count + failed + stale >= expected }
    }

    /// Kind of request whose answers must be equal.
    struct Kind: Hashable, Sendable {
        let context: Int
        let version: Int64
    }

    /// Counts of one turn of a loop.
    struct Turn {
        var at: UInt64 = 0
        var counts = Counts()
        var latencies: [UInt64] = []
        var failed = 0
        var stale = 0
        var different = 0
        var bytes = 0
        /// Kinds of answers seen for the first time on this loop.
        var kinds: [Kind: RunningHash] = [:]

        var isWorth: Bool { !latencies.isEmpty || failed + stale + different > 0 || !kinds.isEmpty }

        /// Sets all counts to zero; keeps the memory.
        mutating func reset(at time: UInt64) {
            at = time
            counts = Counts()
            latencies.removeAll(keepingCapacity: true)
            (failed, stale, different, bytes) = (0, 0, 0, 0)
            kinds.removeAll(keepingCapacity: true)
        }
    }

    private let counted = Mutex(Counts())
    private let current = Mutex(Storm())
    /// Hashes over all storms: that of every version's answer, by context.
    private let known = Mutex<[Kind: RunningHash]>([:])
    private let number = Atomic<Int>(0)
    package let loops = LoadLoops()

    package var counts: Counts { counted.withLock { $0 } }
    package var storm: Storm { current.withLock { $0 } }
    /// Progress of the storm, without a copy of its latencies.
    package var progress: (done: Int, expected: Int, isComplete: Bool) {
        current.withLock { ($0.latencies.count + $0.failed + $0.stale, $0.expected, $0.isComplete) }
    }

    /// The storm that runs, 0 before the first; loops that have not seen it read the plan of it.
    var stormNumber: Int { number.load(ordering: .acquiring) }

    /// Begins a storm.
    package func begin(at time: UInt64, version: Int64, fetchesPerClient: Int) {
        let clients = counts.ready - counts.dead
        current.withLock {
            $0 = Storm(
                number: $0.number + 1, beginsAt: time, version: version, expected: clients * fetchesPerClient)
            $0.latencies.reserveCapacity($0.expected)
        }
        number.add(1, ordering: .acquiringAndReleasing)
    }

    /// Adds what one turn of a loop counted.
    func add(_ turn: Turn) {
        counted.withLock { $0.add(turn.counts) }
        guard turn.isWorth else { return }
        let different = known.withLock { known in
            turn.kinds.reduce(0) { sum, kind in
                sum + (known.updateIfNew(kind.key, kind.value) == kind.value ? 0 : 1)
            }
        }
        current.withLock {
            $0.latencies.append(contentsOf: turn.latencies)
            $0.failed += turn.failed
            $0.stale += turn.stale
            $0.different += turn.different + different
            $0.bytes += turn.bytes
            $0.lastAt = max($0.lastAt, turn.at)
        }
    }
}

extension Dictionary {
    /// Sets a value that has none; returns the one that stands then.
    fileprivate mutating func updateIfNew(_ key: Key, _ value: Value) -> Value {
        if let old = self[key] { return old }
        self[key] = value
        return value
    }
}
