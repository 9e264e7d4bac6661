import Foundation
import Synchronization

/// Counts of the loops so far; they write them once per turn, the command reads them.
package final class LoadTally: Sendable {
    package struct Counts: Sendable {
        package init() {}

        /// Subscribers that stood once.
        package var ready = 0
        /// Subscribers that ended before they stood: refused, or not connected at all.
        package var refused = 0
        /// Subscribers that ended after they stood.
        package var dead = 0
        package var heartbeats = 0
        /// Time when the last one came to stand; nanoseconds of the monotonic clock.
        var lastReadyAt: UInt64 = 0
        /// Failure of the first subscriber that was refused or died.
        package var firstFailure: Failure?
        /// Requests that webhooks' receivers answered.
        package var requests = 0
        /// Connections that receivers accepted; as many as receivers when every connection is used again.
        package var connections = 0
        /// Deliveries of a version that the receiver already had. They are allowed, but each costs a request.
        package var repeated = 0
        /// Deliveries of an older version after a newer one, which must not be.
        package var backwards = 0

        package var live: Int { ready - dead }

        fileprivate mutating func add(_ other: Counts) {
            ready += other.ready
            refused += other.refused
            dead += other.dead
            heartbeats += other.heartbeats
            lastReadyAt = max(lastReadyAt, other.lastReadyAt)
            firstFailure = firstFailure ?? other.firstFailure
            requests += other.requests
            connections += other.connections
            repeated += other.repeated
            backwards += other.backwards
        }
    }

    /// The round in progress: which version is awaited, and when it arrived at whom.
    struct Round: Sendable {
        var version: Int64 = .max
        /// Subscribers that stood when the round began.
        var expected = 0
        /// Subscribers that ended in the round without the version.
        var lost = 0
        /// Times when the version arrived, one per subscriber; nanoseconds of the monotonic clock.
        var arrivals: [UInt64] = []

        var isComplete: Bool { arrivals.count + lost >= expected }
    }

    struct Turn {
        /// Time when the kernel reported input: all that is read in this turn had arrived by then.
        var at: UInt64
        var awaited: Int64
        var counts = Counts()
        var arrivals = 0
        var lost = 0
    }

    private let counted = Mutex(Counts())
    private let round = Mutex(Round())
    private let awaited = Atomic<Int64>(.max)
    package let loops = LoadLoops()

    package var counts: Counts { counted.withLock { $0 } }
    var currentRound: Round { round.withLock { $0 } }
    /// Progress of the present round, without a copy of its arrivals.
    package var delivered: (count: Int, expected: Int, isComplete: Bool) {
        round.withLock { ($0.arrivals.count, $0.expected, $0.isComplete) }
    }
    var awaitedVersion: Int64 { awaited.load(ordering: .acquiring) }

    /// Begins a round; to be called before the version is published.
    package func begin(awaiting version: Int64) {
        let expected = counts.live
        round.withLock {
            $0.version = version
            $0.expected = expected
            $0.lost = 0
            $0.arrivals.removeAll(keepingCapacity: true)
            $0.arrivals.reserveCapacity(expected)
        }
        // Loops compare with the version without a lock: it comes after the round that they add to.
        awaited.store(version, ordering: .releasing)
    }

    func add(_ turn: Turn) {
        counted.withLock { $0.add(turn.counts) }
        guard turn.arrivals + turn.lost > 0 else { return }
        round.withLock {
            // A turn that began in the round before counts for that one, which is over.
            guard $0.version == turn.awaited else { return }
            $0.lost += turn.lost
            $0.arrivals.append(contentsOf: repeatElement(turn.at, count: turn.arrivals))
        }
    }

    package enum Failure: Sendable, Equatable {
        /// A system call failed with this `errno`.
        case system(Int32)
        case status(Int)
        /// The server ended the connection or the stream.
        case ended
        /// Input that Edge does not send.
        case broken

        package var sentence: String {
            switch self {
            case .system(let error): String(cString: strerror(error))
            case .status(let status): "the server answered with HTTP status \(status)"
            case .ended: "the server ended the connection"
            case .broken: "what came is not what Edge sends"
            }
        }
    }
}
