import CLinux
import Synchronization

/// Counts of a loop of Edge as other threads read them.
final class LoopGauges: Sendable {
    /// `edge-0` of the engine, `front-0` of the Front.
    let name: String
    private let tally = Mutex(EdgeTally())
    private let turnedAt = Atomic<UInt64>(0)
    private let wantedUntil = Atomic<UInt64>(0)
    private let publishAt = Atomic<UInt64>(0)
    private let streams = Atomic<Int>(0)
    private let polls = Atomic<Int>(0)

    init(_ name: String) { self.name = name }

    /// Streams and polls as of the loop's last turn; the rest may be a tenth of a second old when no one asked for a
    /// second.
    var lastTally: EdgeTally {
        wantedUntil.store(stalecast_monotonic_ns() + 1_000_000_000, ordering: .relaxed)
        var tally = tally.withLock { $0 }
        tally.streams = streams.load(ordering: .relaxed)
        tally.polls = polls.load(ordering: .relaxed)
        return tally
    }

    /// Time of the loop's last turn, in nanoseconds of the monotonic clock; it turns at least ten times a second. 0 before
    /// the first.
    var lastTurn: UInt64 { turnedAt.load(ordering: .relaxed) }

    func turned(at now: UInt64) { turnedAt.store(now, ordering: .relaxed) }

    func count(streams: Int, polls: Int) {
        self.streams.store(streams, ordering: .relaxed)
        self.polls.store(polls, ordering: .relaxed)
    }

    /// Whether ``publish(_:)`` is due. Handing the counts out makes the next count copy them: ten times a second, or
    /// while a reader wants them.
    func isDue(at turn: UInt64) -> Bool {
        guard turn >= publishAt.load(ordering: .relaxed) || wantedUntil.load(ordering: .relaxed) > turn else {
            return false
        }
        publishAt.store(turn + TimerWheel.tickNanoseconds, ordering: .relaxed)
        return true
    }

    func publish(_ tally: EdgeTally) { self.tally.withLock { $0 = tally } }
}
