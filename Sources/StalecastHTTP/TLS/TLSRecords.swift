import CNIOBoringSSL
import CTLS
import Glibc

/// The server's side of a TLS 1.3 connection whose handshake is over, without BoringSSL's object: the keys and counters
/// that records are sealed and opened with (RFC 8446 §5), some 110 bytes for AES-128.
///
/// A number is used for one record only: it moves on before the record is sealed, whatever becomes of that. A record is
/// sealed once: what the socket did not take of it is kept as it is, and goes out before anything newer is sealed.
///
/// `@unchecked Sendable`: one owner at a time; the last one calls ``free()``.
package struct TLSRecords: @unchecked Sendable {
    /// The rest of a record that the socket did not take.
    private struct Rest {
        var sealed: [UInt8]
        var offset = 0
        /// Bytes of plain text that are taken when it is out.
        let text: Int
    }

    /// Followed by the secrets that are written and read with, the IV and the key that are written with.
    private struct State {
        var rest: Unmanaged<Box>?
        var written: UInt32
        var read: UInt32
        let suite: Suite
        /// The client asked for new keys: before our next record it gets to know them.
        var owesKeyUpdate = false
        /// Key updates of the client since our last record.
        var keyUpdates: UInt8 = 0
    }

    /// Box, so that a stream without a rest pays for a pointer.
    private final class Box {
        var rest: Rest
        init(_ rest: Rest) { self.rest = rest }
    }

    private let state: UnsafeMutablePointer<State>

    /// Most records with one key; AES-GCM bears 2^24.5 (RFC 8446 §5.5).
    private static let keyLife: UInt32 = 1 << 24
    /// Most key updates without a word of ours between them; as BoringSSL.
    private static let maxKeyUpdates: UInt8 = 32

    /// - Parameters:
    ///   - written: number of the next record to be written; `read`: of the next to be read.
    ///   - secrets: `application_traffic_secret_N` of the server and of the client, as long as the suite's hash.
    package init?(
        suite: UInt16, written: UInt64, read: UInt64, writing: UnsafeRawBufferPointer, reading: UnsafeRawBufferPointer
    ) {
        guard let suite = Suite(rawValue: suite), written < Self.keyLife, read < Self.keyLife,
            writing.count == suite.secretBytes, reading.count == suite.secretBytes
        else { return nil }
        let raw = UnsafeMutableRawPointer.allocate(byteCount: Self.size(suite), alignment: 8)
        state = raw.bindMemory(to: State.self, capacity: 1)
        state.initialize(to: State(written: UInt32(written), read: UInt32(read), suite: suite))
        writingSecret.copyMemory(from: writing.baseAddress!, byteCount: writing.count)
        readingSecret.copyMemory(from: reading.baseAddress!, byteCount: reading.count)
        deriveKey()
    }

    /// Frees it, and says nothing.
    package func free() {
        state.pointee.rest?.release()
        let size = Self.size(state.pointee.suite)
        OPENSSL_cleanse(state, size)
        UnsafeMutableRawPointer(state).deallocate()
    }

    // MARK: Where things lie

    private static func size(_ suite: Suite) -> Int {
        MemoryLayout<State>.size + 2 * suite.secretBytes + Suite.ivBytes + suite.keyBytes
    }

    private var writingSecret: UnsafeMutableRawPointer { UnsafeMutableRawPointer(state) + MemoryLayout<State>.size }
    private var readingSecret: UnsafeMutableRawPointer { writingSecret + state.pointee.suite.secretBytes }
    private var iv: UnsafeMutableRawPointer { readingSecret + state.pointee.suite.secretBytes }
    private var key: UnsafeMutableRawPointer { iv + Suite.ivBytes }

    // MARK: Sending

    /// Seals bytes and sends the records.
    ///
    /// - Returns: the bytes taken, 0 when the socket takes nothing now; -1 when the connection is dead. Those of a
    ///   record of which the socket took a part only are not taken: they have to be the next that are given.
    package func send(_ bytes: UnsafeRawPointer, _ count: Int, to fd: Int32, _ recordCipher: TLSRecordCipher) -> Int {
        var taken = 0
        if let box = state.pointee.rest {
            switch finish(box.takeUnretainedValue(), fd) {
            case .blocked: return 0
            case .dead: return -1
            case .all(let text):
                // The caller gives the bytes of that record again; fewer means that it lost count.
                guard text <= count else { return -1 }
                taken = text
            }
        }
        while taken < count {
            let part = min(count - taken, TLSRecordCipher.maxText)
            let length = seal(.applicationData, bytes + taken, part, recordCipher)
            guard length > 0 else { return -1 }
            let sent = Self.send(recordCipher.record, length, fd)
            guard sent >= 0 else { return -1 }
            guard sent == length else {
                let sealed = Array(UnsafeRawBufferPointer(start: recordCipher.record + sent, count: length - sent))
                state.pointee.rest = .passRetained(Box(Rest(sealed: sealed, text: part)))
                return taken
            }
            taken += part
        }
        return taken
    }

    private enum Outcome {
        case all(text: Int)
        case blocked, dead
    }

    private func finish(_ box: Box, _ fd: Int32) -> Outcome {
        let sent = box.rest.sealed.withUnsafeBytes { bytes in
            Self.send(bytes.baseAddress! + box.rest.offset, bytes.count - box.rest.offset, fd)
        }
        guard sent >= 0 else { return .dead }
        box.rest.offset += sent
        guard box.rest.offset == box.rest.sealed.count else { return .blocked }
        let text = box.rest.text
        state.pointee.rest?.release()
        state.pointee.rest = nil
        return .all(text: text)
    }

    /// 0 when the socket takes nothing now, -1 when it never will.
    private static func send(_ bytes: UnsafeRawPointer, _ count: Int, _ fd: Int32) -> Int {
        let sent = Glibc.send(fd, bytes, count, Int32(MSG_DONTWAIT | MSG_NOSIGNAL))
        return sent < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : sent
    }

    /// Tells the client that nothing more comes (close_notify), as far as the socket takes it at once; nothing while a
    /// record is unfinished: it could not be read.
    package func sayGoodbye(to fd: Int32, _ recordCipher: TLSRecordCipher) { say([1, 0], to: fd, recordCipher) }

    private func say(_ alert: [UInt8], to fd: Int32, _ recordCipher: TLSRecordCipher) {
        guard state.pointee.rest == nil else { return }
        let length = alert.withUnsafeBytes { seal(.alert, $0.baseAddress!, $0.count, recordCipher) }
        if length > 0 { _ = Self.send(recordCipher.record, length, fd) }
    }

    /// Seals a record, after a key update when one is due.
    ///
    /// - Returns: length of both in bytes; 0 when it cannot be done.
    private func seal(
        _ type: TLSRecordCipher.Content, _ bytes: UnsafeRawPointer, _ count: Int, _ recordCipher: TLSRecordCipher
    ) -> Int {
        var length = 0
        if state.pointee.owesKeyUpdate || state.pointee.written >= Self.keyLife {
            // A KeyUpdate that asks for none.
            let keyUpdate: [UInt8] = [24, 0, 0, 1, 0]
            length = keyUpdate.withUnsafeBytes { sealOne(.handshake, $0.baseAddress!, $0.count, recordCipher, at: 0) }
            guard length > 0 else { return 0 }
            renew(writingSecret)
            deriveKey()
            state.pointee.written = 0
            state.pointee.owesKeyUpdate = false
        }
        // Only key changes without a record of ours between them are bounded, so their count starts over.
        state.pointee.keyUpdates = 0
        let own = sealOne(type, bytes, count, recordCipher, at: length)
        return own > 0 ? length + own : 0
    }

    private func sealOne(
        _ type: TLSRecordCipher.Content, _ bytes: UnsafeRawPointer, _ count: Int, _ recordCipher: TLSRecordCipher,
        at offset: Int
    ) -> Int {
        let number = state.pointee.written
        state.pointee.written += 1
        let key = RecordKey(suite: state.pointee.suite, bytes: key, iv: iv, number: number)
        return recordCipher.seal(type, bytes, count, at: offset, key)
    }

    // MARK: Receiving

    /// Takes one record of the client's. On a stream nothing it says matters but new keys and its end.
    ///
    /// A record stays with the kernel until it is whole.
    ///
    /// - Returns: its length, 0 when no whole one is there; -1 when the client has ended, or broken, the connection.
    package func read(from fd: Int32, _ recordCipher: TLSRecordCipher) -> Int {
        let count = recv(fd, recordCipher.record, TLSRecordCipher.maxRecord, Int32(MSG_PEEK | MSG_DONTWAIT))
        guard count > 0 else { return count < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1 }
        guard let length = recordCipher.recordLength(count) else { return fail(.unexpectedMessage, fd, recordCipher) }
        guard length > 0, length <= count else { return 0 }
        guard recv(fd, recordCipher.record, length, Int32(MSG_DONTWAIT)) == length else { return -1 }
        guard let (type, text) = open(length, recordCipher) else { return fail(.badRecord, fd, recordCipher) }
        switch type {
        case .applicationData: return length
        case .handshake: return changeKeys(text) ? length : fail(.unexpectedMessage, fd, recordCipher)
        case .alert: return -1
        }
    }

    /// Alert with which a connection is broken off (RFC 8446 §6.2).
    private enum Alert: UInt8 { case unexpectedMessage = 10, badRecord = 20 }

    private func fail(_ alert: Alert, _ fd: Int32, _ recordCipher: TLSRecordCipher) -> Int {
        say([2, alert.rawValue], to: fd, recordCipher)
        return -1
    }

    private func open(_ length: Int, _ recordCipher: TLSRecordCipher) -> (
        TLSRecordCipher.Content, UnsafeRawBufferPointer
    )? {
        let number = state.pointee.read
        // The number makes the nonce, and must not wrap while the key is the same (RFC 8446 §5.3).
        guard number < .max else { return nil }
        state.pointee.read += 1
        let suite = state.pointee.suite
        return withUnsafeTemporaryAllocation(byteCount: suite.keyBytes + Suite.ivBytes, alignment: 8) { keys in
            let base = keys.baseAddress!
            suite.expand(readingSecret, "key", into: base, suite.keyBytes)
            suite.expand(readingSecret, "iv", into: base + suite.keyBytes, Suite.ivBytes)
            defer { OPENSSL_cleanse(base, keys.count) }
            let key = RecordKey(suite: suite, bytes: base, iv: base + suite.keyBytes, number: number)
            return recordCipher.open(length, key)
        }
    }

    /// A KeyUpdate is the only message that a client still has for us, and the last in its record (RFC 8446 §5.1).
    private func changeKeys(_ message: UnsafeRawBufferPointer) -> Bool {
        guard message.count == 5, message.starts(with: [24, 0, 0, 1]), message[4] <= 1,
            state.pointee.keyUpdates < Self.maxKeyUpdates
        else { return false }
        if message[4] == 1 { state.pointee.owesKeyUpdate = true }
        state.pointee.keyUpdates += 1
        renew(readingSecret)
        state.pointee.read = 0
        return true
    }

    // MARK: Keys

    private func deriveKey() {
        let suite = state.pointee.suite
        suite.expand(writingSecret, "key", into: key, suite.keyBytes)
        suite.expand(writingSecret, "iv", into: iv, Suite.ivBytes)
    }

    private func renew(_ secret: UnsafeMutableRawPointer) {
        let suite = state.pointee.suite
        withUnsafeTemporaryAllocation(byteCount: suite.secretBytes, alignment: 8) { next in
            suite.expand(secret, "traffic upd", into: next.baseAddress!, next.count)
            secret.copyMemory(from: next.baseAddress!, byteCount: next.count)
            OPENSSL_cleanse(next.baseAddress, next.count)
        }
    }
}

extension TLSSession {
    /// State that goes on without BoringSSL, which is to be freed then; nil when that cannot be: before TLS 1.3, or
    /// while a record of the client's has been read in part.
    ///
    /// Right after a ``send(_:_:)`` that took everything: until then tickets and new keys may wait to be sent.
    package func records() -> TLSRecords? {
        guard SSL_version(raw) == TLS1_3_VERSION, SSL_in_init(raw) == 0, SSL_has_pending(raw) == 0,
            SSL_get_shutdown(raw) == 0, !isAhead, let cipher = SSL_get_current_cipher(raw)
        else { return nil }
        return withUnsafeTemporaryAllocation(byteCount: 2 * Suite.maxSecretBytes, alignment: 8) { secrets in
            defer { OPENSSL_cleanse(secrets.baseAddress, secrets.count) }
            let (reading, writing) = (secrets.baseAddress!, secrets.baseAddress! + Suite.maxSecretBytes)
            let count = stalecast_traffic_secrets(
                UnsafeRawPointer(raw), reading.assumingMemoryBound(to: UInt8.self),
                writing.assumingMemoryBound(to: UInt8.self), Suite.maxSecretBytes)
            return TLSRecords(
                suite: SSL_CIPHER_get_protocol_id(cipher), written: SSL_get_write_sequence(raw),
                read: SSL_get_read_sequence(raw), writing: UnsafeRawBufferPointer(start: writing, count: count),
                reading: UnsafeRawBufferPointer(start: reading, count: count))
        }
    }
}
