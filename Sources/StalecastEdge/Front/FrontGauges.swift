import CLinux
import StalecastWire
import Synchronization

/// Counts and limits of a ``FrontShard`` as other threads read them.
final class FrontGauges: Sendable {
    private let tally = Mutex(EdgeTally())
    private let turnedAt = Atomic<UInt64>(stalecast_monotonic_ns())
    private let connections: Atomic<Int>
    /// Silence in milliseconds.
    private let silence: Atomic<Int>

    init(_ caps: ConnectionCaps) {
        connections = Atomic(caps.connections)
        silence = Atomic(caps.silence.milliseconds)
    }

    var lastTally: EdgeTally { tally.withLock { $0 } }
    /// The cap as of the last settings; for the listener, which may be on another loop.
    var maxConnections: Int { connections.load(ordering: .relaxed) }
    var lastSilence: Duration { .milliseconds(silence.load(ordering: .relaxed)) }
    var lastTurn: UInt64 { turnedAt.load(ordering: .relaxed) }

    func publish(_ tally: EdgeTally) { self.tally.withLock { $0 = tally } }

    func turned(at now: UInt64) { turnedAt.store(now, ordering: .relaxed) }

    func apply(_ caps: ConnectionCaps) {
        connections.store(caps.connections, ordering: .relaxed)
        silence.store(caps.silence.milliseconds, ordering: .relaxed)
    }
}
