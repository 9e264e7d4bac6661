import CLinux
import Glibc
import StalecastHub
import StalecastWire
import Synchronization

/// End of a canary's sockets that a loop writes to.
package final class CanaryEnd: Sendable {
    private let socket: Int32
    /// Nanoseconds from the announcement until the loop wrote the last message, where it held that one back; 0 where it
    /// did not.
    let heldBack = Atomic<UInt64>(0)

    /// - Parameter socket: closed with this object.
    init(_ socket: Int32) { self.socket = socket }

    deinit { close(socket) }

    /// - Returns: false when the canary has ended: no reader is too slow for as little as it gets.
    fileprivate func send(_ bytes: SharedBytes, heldBack nanoseconds: UInt64) -> Bool {
        heldBack.store(nanoseconds, ordering: .relaxed)
        return stalecast_send(socket, bytes.base, bytes.count) == bytes.count
    }
}

/// The ends of the canaries that a loop writes to, beside its subscribers: they are in no list of members and no
/// figure.
struct CanarySeats {
    private struct Seat {
        let end: CanaryEnd
        /// Time of the last message, in nanoseconds of the monotonic clock.
        var toldAt: UInt64 = 0
        /// Newest announcement that came too soon after the last message.
        var late: TopicBoard.Announcement?
    }

    /// Nanoseconds between two messages of a canary at least: a write, and the thread that reads it, cost as much as a
    /// tenth of a publish.
    static let pace = TimerWheel.tickNanoseconds

    private var seats: [Scope: Seat] = [:]

    var isEmpty: Bool { seats.isEmpty }
    var scopes: Set<Scope> { Set(seats.keys) }

    mutating func add(_ end: CanaryEnd, of scope: Scope) { seats[scope] = Seat(end: end) }

    /// Writes what was announced to the canaries of its scopes, or holds it back. Call it after all other streams were
    /// written to.
    mutating func tell(_ run: [TopicBoard.Announcement]) {
        for announcement in run {
            let scope = announcement.change.scope
            guard let seat = seats[scope] else { continue }
            seats[scope]?.late = announcement
            if announcement.announcedAt >= seat.toldAt + Self.pace { send(scope, isLate: false) }
        }
    }

    /// Writes what was held back and is due.
    mutating func tellLate(at now: UInt64) {
        for (scope, seat) in seats where seat.late != nil && now >= seat.toldAt + Self.pace {
            send(scope, isLate: true)
        }
    }

    private mutating func send(_ scope: Scope, isLate: Bool) {
        guard let seat = seats[scope], let announcement = seat.late else { return }
        let now = stalecast_monotonic_ns()
        seats[scope]?.late = nil
        guard
            let message = announcement.encodedMessages.first(where: { !$0.encodedMessage.isInvalidation })?
                .encodedMessage
        else { return }
        seats[scope]?.toldAt = now
        let heldBack = isLate ? now &- announcement.announcedAt : 0
        if !seat.end.send(message.chunk, heldBack: heldBack) { seats[scope] = nil }
    }

    mutating func closeAll() { seats = [:] }
}
