import CNIOBoringSSL
import Foundation
import Glibc
import StalecastDaemon
import StalecastHTTP
import Testing

/// The client's side of a TLS connection; it trusts each certificate.
final class TLSWire {
    private let raw: OpaquePointer
    /// The server said that it was all.
    private(set) var isGoodbye = false
    /// A record could not be opened, or the server said why it ends.
    private(set) var isBroken = false

    /// - Parameter isOld: TLS 1.2.
    init(isOld: Bool = false) {
        let context = SSL_CTX_new(TLS_client_method())
        defer { SSL_CTX_free(context) }
        SSL_CTX_set_max_proto_version(context, UInt16(isOld ? TLS1_2_VERSION : TLS1_3_VERSION))
        raw = SSL_new(context)
    }

    deinit { SSL_free(raw) }

    func shakeHands(over fd: Int32) {
        SSL_set_fd(raw, fd)
        #expect(SSL_connect(raw) == 1, "the handshake failed")
        // A record may hold nothing for us.
        _ = fcntl(fd, F_SETFL, O_NONBLOCK)
    }

    func send(_ bytes: [UInt8]) { SSL_write(raw, bytes, Int32(bytes.count)) }

    /// Bytes as the records they would be sent in.
    func seal(_ bytes: [UInt8], over fd: Int32) -> [UInt8] {
        SSL_set0_wbio(raw, BIO_new(BIO_s_mem()))
        send(bytes)
        var records = [UInt8](repeating: 0, count: BIO_pending(SSL_get_wbio(raw)))
        BIO_read(SSL_get_wbio(raw), &records, Int32(records.count))
        SSL_set0_wbio(raw, BIO_new_socket(fd, 0))
        return records
    }

    /// nil when there was nothing for us; 0 at the end.
    func receive(into buffer: inout [UInt8]) -> Int? {
        var total = 0
        while true {
            let room = buffer.count - total
            let count = buffer.withUnsafeMutableBytes { SSL_read(raw, $0.baseAddress! + total, Int32(room)) }
            if count > 0 {
                total += Int(count)
                if total < buffer.count { continue }
                return total
            }
            if total > 0 { return total }
            let reason = SSL_get_error(raw, count)
            if reason == SSL_ERROR_WANT_READ { return nil }
            isGoodbye = reason == SSL_ERROR_ZERO_RETURN
            isBroken = reason == SSL_ERROR_SSL
            return 0
        }
    }

    /// New keys in both directions. That goes with the next record.
    func updateKeys(_ next: [UInt8] = [0x0A]) {
        SSL_key_update(raw, SSL_KEY_UPDATE_REQUESTED)
        send(next)
    }

    func sayGoodbye() { SSL_shutdown(raw) }

    /// Certificate that the server showed, in DER.
    var certificate: [UInt8] {
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = i2d_X509(SSL_get_peer_certificate(raw), &bytes)
        return Array(UnsafeBufferPointer(start: bytes, count: max(0, Int(count))))
    }
}

extension TLSServer.Material {
    /// A certificate that was made just now.
    static func development() throws -> Self {
        let made = DevelopmentCertificate()
        return Self([
            try TLSIdentity(
                certificate: Array(made.certificate.utf8), name: "a.pem", key: Array(made.key.utf8), keyName: "a.key")
        ])
    }
}
