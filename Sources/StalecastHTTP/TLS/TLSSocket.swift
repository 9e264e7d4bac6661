import CNIOBoringSSL
import Glibc

/// Non-blocking socket under a TLS session. The caller closes the descriptor. BoringSSL's own socket raises SIGPIPE.
/// BoringSSL reads each record's head and its rest apart; with `readsAhead` the kernel is asked once for both.
///
/// The socket belongs to its session, so it is not `Sendable`.
final class TLSSocket {
    private let fd: Int32
    private let readsAhead: Bool
    /// Bytes that were read behind a record's head, and how many of them BoringSSL has taken.
    private var ahead: [UInt8] = []
    private var taken = 0
    /// The last read took all that had come.
    private var isEmptied = false

    private static let mostAhead = 4096
    /// RFC 8446 §5.1: type, version, length.
    private static let recordHead = 5

    private init(_ fd: Int32, readsAhead: Bool) { (self.fd, self.readsAhead) = (fd, readsAhead) }

    /// Whether there is input, or its end, that BoringSSL has not got.
    var hasUnread: Bool {
        var byte: UInt8 = 0
        return taken < ahead.count || !isEmptied && recv(fd, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) >= 0
    }

    /// Input that BoringSSL has not got: for the next owner of the session.
    var unread: ArraySlice<UInt8> { ahead[taken...] }

    /// Reads as `recv` does.
    private func read(_ bytes: UnsafeMutablePointer<CChar>, _ count: Int) -> Int {
        if readsAhead, count == Self.recordHead, ahead.isEmpty {
            var received = 0
            ahead = Array(unsafeUninitializedCapacity: Self.mostAhead) { buffer, filled in
                received = recv(fd, buffer.baseAddress, Self.mostAhead, Int32(MSG_DONTWAIT))
                filled = max(0, received)
            }
            note(received, of: Self.mostAhead)
            if received <= 0 {
                // An empty array keeps its room, for as long as the client is silent.
                let code = errno
                ahead = []
                errno = code
                return received
            }
        }
        guard !ahead.isEmpty else {
            let received = recv(fd, bytes, count, Int32(MSG_DONTWAIT))
            note(received, of: count)
            return received
        }
        let part = min(count, ahead.count - taken)
        ahead.withUnsafeBytes {
            UnsafeMutableRawPointer(bytes).copyMemory(from: $0.baseAddress! + taken, byteCount: part)
        }
        taken += part
        if taken == ahead.count { (ahead, taken) = ([], 0) }
        return part
    }

    private func note(_ received: Int, of count: Int) {
        isEmptied = received < 0 ? errno == EAGAIN : received < count
    }

    // MARK: For BoringSSL

    /// Puts a session over a socket.
    ///
    /// - Parameter readsAhead: the caller then looks at ``TLSSession/hasUnread`` before it waits for the socket.
    static func put(_ raw: OpaquePointer, over fd: Int32, readsAhead: Bool) {
        let bio = BIO_new(method)
        BIO_set_data(bio, Unmanaged.passRetained(TLSSocket(fd, readsAhead: readsAhead)).toOpaque())
        BIO_set_init(bio, 1)
        SSL_set_bio(raw, bio, bio)
    }

    /// nil for a session over memory.
    static func of(_ raw: OpaquePointer) -> TLSSocket? {
        guard let bio = SSL_get_rbio(raw), BIO_method_type(bio) == type else { return nil }
        return under(bio)
    }

    private static func under(_ bio: OpaquePointer?) -> TLSSocket? {
        BIO_get_data(bio).map { Unmanaged<TLSSocket>.fromOpaque($0).takeUnretainedValue() }
    }

    private static let type = BIO_get_new_index() | BIO_TYPE_SOURCE_SINK

    /// `nonisolated(unsafe)`: nothing changes it once it is made.
    private nonisolated(unsafe) static let method: OpaquePointer? = {
        let method = BIO_meth_new(type, "descriptor")
        BIO_meth_set_write(method) { bio, bytes, count in
            BIO_clear_retry_flags(bio)
            guard let socket = TLSSocket.under(bio) else { return -1 }
            let sent = Glibc.send(socket.fd, bytes, Int(count), Int32(MSG_DONTWAIT | MSG_NOSIGNAL))
            if sent < 0, errno == EAGAIN || errno == EINTR { BIO_set_retry_write(bio) }
            return Int32(clamping: sent)
        }
        BIO_meth_set_read(method) { bio, bytes, count in
            BIO_clear_retry_flags(bio)
            guard let socket = TLSSocket.under(bio), let bytes else { return -1 }
            let received = socket.read(bytes, Int(count))
            if received < 0, errno == EAGAIN || errno == EINTR { BIO_set_retry_read(bio) }
            return Int32(clamping: received)
        }
        BIO_meth_set_ctrl(method) { _, command, _, _ in command == BIO_CTRL_FLUSH ? 1 : 0 }
        BIO_meth_set_destroy(method) { bio in
            BIO_get_data(bio).map { Unmanaged<TLSSocket>.fromOpaque($0).release() }
            BIO_set_data(bio, nil)
            return 1
        }
        return method
    }()
}
