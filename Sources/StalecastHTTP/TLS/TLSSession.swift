import CNIOBoringSSL
import NIOCore

/// One side of a TLS connection, in BoringSSL's hands. The server's begins over memory: the owner carries the
/// records. ``use(_:)`` puts it over a descriptor.
///
/// `@unchecked Sendable`: one owner at a time; the last one calls ``free()``.
package struct TLSSession: @unchecked Sendable {
    let raw: OpaquePointer

    /// - Parameter raw: owned from here on.
    init(_ raw: OpaquePointer) { self.raw = raw }

    /// The server's side of a new connection.
    init(_ context: TLSContext) throws(TLSProblem) {
        self.raw = try Self.newSSL(context.raw)
        SSL_set_accept_state(raw)
        // What only the handshake needs goes with it: 1.3 kB.
        SSL_set_shed_handshake_config(raw, 1)
        useMemory()
    }

    /// Makes an `SSL` that the caller must free.
    static func newSSL(_ context: OpaquePointer) throws(TLSProblem) -> OpaquePointer {
        guard let raw = SSL_new(context) else { throw TLSProblem("no memory for a TLS connection") }
        return raw
    }

    /// Frees it, and says nothing.
    package func free() { SSL_free(raw) }

    // MARK: Handshake

    package enum Progress { case done, underWay, failed }

    package func shakeHands() -> Progress {
        let result = SSL_do_handshake(raw)
        if result == 1 { return .done }
        return isWaiting(result) ? .underWay : .failed
    }

    package var problem: String {
        let verdict = SSL_get_verify_result(raw)
        guard verdict != X509_V_OK else { return "it does not speak TLS as we do" }
        return "its certificate is refused: \(String(cString: X509_verify_cert_error_string(verdict)))"
    }

    private func isWaiting(_ result: Int32) -> Bool {
        [SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE].contains(SSL_get_error(raw, result))
    }

    /// Protocol that ALPN chose; nil when the client offered nothing.
    var application: String? {
        var name: UnsafePointer<UInt8>?
        var count: UInt32 = 0
        SSL_get0_alpn_selected(raw, &name, &count)
        return count == 0 ? nil : String(decoding: UnsafeBufferPointer(start: name, count: Int(count)), as: UTF8.self)
    }

    // MARK: Plain text

    /// Seals bytes and sends the records; before a client's handshake is over it takes none.
    ///
    /// A record that the socket did not take whole is kept, and its bytes do not count as taken. They, and nothing else,
    /// have to be given again first: what the client has of that record is worth nothing without its rest.
    ///
    /// - Returns: the bytes taken, 0 when the socket takes nothing now; -1 when the connection is dead.
    package func send(_ bytes: UnsafeRawPointer, _ count: Int) -> Int {
        var taken = 0
        while taken < count {
            let written = SSL_write(raw, bytes + taken, Int32(clamping: count - taken))
            guard written > 0 else { return isWaiting(written) ? taken : -1 }
            taken += Int(written)
        }
        return taken
    }

    /// Takes what the client said, one record's at most; what is not for us, such as a change of keys, is dealt with.
    ///
    /// - Returns: the bytes, 0 when nothing is there yet; -1 when the client has ended, or broken, the connection.
    package func read(_ buffer: UnsafeMutableRawPointer?, _ count: Int) -> Int {
        outcome(SSL_read(raw, buffer, Int32(clamping: count)))
    }

    /// Reads as ``read(_:_:)`` does, and leaves the bytes there.
    package func peek(_ buffer: UnsafeMutableRawPointer?, _ count: Int) -> Int {
        outcome(SSL_peek(raw, buffer, Int32(clamping: count)))
    }

    private func outcome(_ result: Int32) -> Int {
        if result > 0 { return Int(result) }
        return isWaiting(result) ? 0 : -1
    }

    /// Tells the client that nothing more comes (close_notify), as far as the socket takes it at once. Not while a record
    /// is unfinished: it could not be read.
    package func sayGoodbye() { SSL_shutdown(raw) }

    var hasHeardGoodbye: Bool { SSL_get_shutdown(raw) & SSL_RECEIVED_SHUTDOWN != 0 }

    // MARK: Over memory

    func useMemory() {
        // Bytes that were read ahead from the socket go along.
        let unread = TLSSocket.of(raw)?.unread ?? []
        SSL_set0_rbio(raw, BIO_new(BIO_s_mem()))
        SSL_set0_wbio(raw, BIO_new(BIO_s_mem()))
        if !unread.isEmpty { receive(ByteBuffer(bytes: unread)) }
    }

    /// Everything received was looked at, and everything written was taken.
    var isClear: Bool { BIO_pending(SSL_get_rbio(raw)) == 0 && BIO_pending(SSL_get_wbio(raw)) == 0 }

    func receive(_ records: ByteBuffer) {
        _ = records.withUnsafeReadableBytes { BIO_write(SSL_get_rbio(raw), $0.baseAddress, Int32(clamping: $0.count)) }
    }

    /// Records for the network; empty when there are none.
    func takeRecords(_ allocator: ByteBufferAllocator) -> ByteBuffer {
        let count = BIO_pending(SSL_get_wbio(raw))
        var records = allocator.buffer(capacity: count)
        guard count > 0 else { return records }
        records.writeWithUnsafeMutableBytes(minimumWritableBytes: count) {
            Int(max(0, BIO_read(SSL_get_wbio(raw), $0.baseAddress, Int32(clamping: count))))
        }
        return records
    }

    /// Most of what a connection needs between requests; what took more is given back.
    private static let kept = 4096

    /// Gives back the memory that large messages took. `received`: bytes of the last input.
    func shrink(received: Int, sent: Int) {
        if received > Self.kept, BIO_pending(SSL_get_rbio(raw)) == 0 { SSL_set0_rbio(raw, BIO_new(BIO_s_mem())) }
        if sent > Self.kept, BIO_pending(SSL_get_wbio(raw)) == 0 { SSL_set0_wbio(raw, BIO_new(BIO_s_mem())) }
    }

    // MARK: Over a descriptor

    /// Sends and receives records over a non-blocking socket from now on, which stays the caller's to close.
    ///
    /// - Parameter readsAhead: records are read with fewer system calls; the caller looks at ``hasUnread`` before it waits
    ///   for the socket.
    package func use(_ fd: Int32, readsAhead: Bool = false) { TLSSocket.put(raw, over: fd, readsAhead: readsAhead) }

    /// Whether records, or the end of the connection, have come and were not looked at. What the socket reported since it
    /// was last read may be missing: the caller notes such reports itself.
    package var hasUnread: Bool { TLSSocket.of(raw)?.hasUnread ?? false }

    /// Whether the next ``read(_:_:)`` may be served from what was read before, without a look at the socket: bytes of a
    /// record that was opened, or records that BoringSSL has not got.
    package var isAhead: Bool { SSL_pending(raw) > 0 || TLSSocket.of(raw)?.unread.isEmpty == false }
}
