import CLinux
import Glibc
package import StalecastHub
package import StalecastWire
import Synchronization

/// End of a canary's sockets that a loop writes to.
package final class CanaryEnd: Sendable {
    private let socket: Int32
    /// Nanoseconds from the announcement until the loop wrote the last message, where it held that one back; 0 where it
    /// did not.
    let heldBack = Atomic<UInt64>(0)

    /// - Parameter socket: closed with this object.
    package init(_ socket: Int32) { self.socket = socket }

    deinit { close(socket) }

    /// - Returns: false when the canary has ended: no reader is too slow for as little as it gets.
    fileprivate func send(_ bytes: SharedBytes, heldBack nanoseconds: UInt64) -> Bool {
        heldBack.store(nanoseconds, ordering: .relaxed)
        if stalecast_send(socket, bytes.base, bytes.count) == bytes.count { return true }
        // ``Canaries`` holds this object too. The end of the stream makes it begin again with a new pair.
        shutdown(socket, Int32(SHUT_RDWR))
        return false
    }
}

/// The ends of the canaries that a loop writes to, beside its subscribers: they are in no list of members and no
/// figure.
package struct CanarySeats {
    private struct Seat {
        let end: CanaryEnd
        /// Time of the last message, in nanoseconds of the monotonic clock: of its announcement, or of its write where
        /// it was held back.
        var toldAt: UInt64 = 0
        var late: Message?
    }

    private struct Message {
        let encoded: EncodedMessage
        let announcedAt: UInt64
    }

    /// Nanoseconds between two messages of a canary at least: a write, and the thread that reads it, cost as much as a
    /// tenth of a publish.
    package static let pace = TimerWheel.tickNanoseconds

    private var seats: [Scope: Seat] = [:]

    package init() {}

    var isEmpty: Bool { seats.isEmpty }
    package var scopes: Set<Scope> { Set(seats.keys) }

    package mutating func add(_ end: CanaryEnd, of scope: Scope) { seats[scope] = Seat(end: end) }

    /// Writes the newest message of each scope to its canary, or holds it back. Call it after all other streams were
    /// written to.
    package mutating func tell(_ run: [TopicBoard.Announcement]) {
        var newest: [Scope: Message] = [:]
        for announcement in run where seats[announcement.change.scope] != nil {
            // A change that no topic by name hears must not displace a message that waits.
            guard
                let encoded = announcement.encodedMessages.first(where: { !$0.encodedMessage.isInvalidation })?
                    .encodedMessage
            else { continue }
            newest[announcement.change.scope] = Message(encoded: encoded, announcedAt: announcement.announcedAt)
        }
        for (scope, message) in newest {
            guard let seat = seats[scope] else { continue }
            seats[scope]?.late = message
            // While another message waits, the inbox may not have woken the loop for this one either.
            let isDue = seat.late == nil && message.announcedAt >= seat.toldAt + Self.pace
            if isDue { send(scope, isLate: false, at: message.announcedAt) }
        }
    }

    package mutating func tellLate(at now: UInt64) {
        for (scope, seat) in seats where seat.late != nil && now >= seat.toldAt + Self.pace {
            send(scope, isLate: true, at: now)
        }
    }

    private mutating func send(_ scope: Scope, isLate: Bool, at now: UInt64) {
        guard let seat = seats[scope], let message = seat.late else { return }
        seats[scope]?.late = nil
        seats[scope]?.toldAt = now
        // A message is held back until the first tick after the pace at most. A longer wait is a late loop, and shows.
        let heldUntil = max(message.announcedAt, min(now, seat.toldAt + 2 * Self.pace))
        let heldBack = isLate ? heldUntil - message.announcedAt : 0
        if !seat.end.send(message.encoded.chunk, heldBack: heldBack) { seats[scope] = nil }
    }

    mutating func closeAll() { seats = [:] }
}
