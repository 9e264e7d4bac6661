import Glibc
package import NIOCore
import Synchronization

/// Answer that the thread which made it writes to the client itself.
///
/// Otherwise the thread wakes the connection's loop to write it, and the client waits for that. The loop takes note of the
/// written answer when the client's next bytes arrive, or at its next sweep. It is woken only where it looked before the
/// answer was written, where the socket took a part of it, and where the connection ends with it.
///
/// The socket is a duplicate: once the loop has closed its own descriptor, the number may mean another connection.
package final class PromptAnswer: Sendable {
    private enum Phase {
        case open
        /// The loop has looked before the answer was written. It is woken to write it, or to note that it was just written.
        case awaited
        case written
    }

    private let phase = Mutex(Phase.open)
    /// -1 once the answer was written.
    private let socket: Atomic<Int32>
    private let date: String

    /// - Returns: nil where the channel has no socket, where bytes wait for the client already, and where no descriptor is
    ///   left.
    init?(_ context: ChannelHandlerContext, date: String) {
        // A channel that is being closed has neither.
        let waiting = try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)
        let copy = try? context.pipeline.syncOperations.withUnsafeTransportIfAvailable { (socket: CInt) in
            waiting == 0 ? fcntl(socket, F_DUPFD_CLOEXEC, 0) : -1
        }
        socket = Atomic(copy ?? -1)
        self.date = date
        if copy ?? -1 < 0 { return nil }
    }

    deinit { release() }

    private func release() {
        let socket = socket.exchange(-1, ordering: .relaxed)
        if socket >= 0 { close(socket) }
    }

    /// Writes the answer to the request that `connection` serves; once. Never blocks.
    package func write(_ answer: Answer, of connection: HTTPConnection, on loop: any EventLoop) {
        let bytes = ResponseHead.response(
            status: answer.status, type: answer.contentType, caching: answer.caching, fields: answer.fields, date: date,
            keepAlive: true, body: answer.body)
        // The loop has looked already, for bytes, an end, a drain or a sweep: it must be woken, and knows whether the
        // connection goes on.
        if answer.closesConnection || phase.withLock({ $0 == .awaited }) {
            release()
            return loop.execute { connection.answer(answer) }
        }
        let sent = bytes.withUnsafeBytes {
            send(socket.load(ordering: .relaxed), $0.baseAddress, $0.count, Int32(MSG_DONTWAIT | MSG_NOSIGNAL))
        }
        release()
        guard sent == bytes.count else {
            // The loop finds out why the socket did not take all.
            let rest = Array(bytes[max(0, sent)...])
            return loop.execute {
                connection.write(rest)
                connection.ended(keepAlive: connection.keepsAlive)
            }
        }
        let isAwaited = phase.withLock { phase in
            defer { phase = .written }
            return phase == .awaited
        }
        if isAwaited { loop.execute { connection.notePrompt() } }
    }

    /// Whether the answer was written. If not, the write wakes the loop.
    func isWritten() -> Bool {
        phase.withLock { phase in
            if phase == .open { phase = .awaited }
            return phase == .written
        }
    }
}
