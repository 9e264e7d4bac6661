import CLinux
import Glibc
import StalecastHub
import StalecastWire

/// The ends of the canaries that a loop writes to, beside its subscribers: they are in no list of members and no
/// figure.
struct CanarySeats {
    private var sockets: [Scope: Int32] = [:]

    var isEmpty: Bool { sockets.isEmpty }
    var scopes: Dictionary<Scope, Int32>.Keys { sockets.keys }

    /// The socket is the loop's to close from here on.
    mutating func add(_ socket: Int32, of scope: Scope) {
        if let old = sockets.updateValue(socket, forKey: scope) { close(old) }
    }

    /// After all other streams were written to.
    mutating func tell(_ run: [TopicBoard.Announcement]) {
        for announcement in run {
            guard let socket = sockets[announcement.change.scope],
                let encodedMessage = announcement.encodedMessages.first(where: { !$0.encodedMessage.isInvalidation })?
                    .encodedMessage
            else { continue }
            // One that takes nothing has ended: no reader is too slow for as little as it gets.
            guard
                stalecast_send(socket, encodedMessage.chunk.base, encodedMessage.chunk.count)
                    != encodedMessage.chunk.count
            else { continue }
            sockets[announcement.change.scope] = nil
            close(socket)
        }
    }

    mutating func closeAll() {
        for socket in sockets.values { close(socket) }
        sockets = [:]
    }
}
