import CNIOBoringSSL
import NIOSSL
package import StalecastAccess
import StalecastWire

extension TLSSession {
    /// Certificate that the client showed, in this handshake or the one that it resumes; nil when none.
    package var clientCertificate: ClientCertificate? {
        guard let x509 = SSL_get_peer_certificate(raw) else { return nil }
        defer { X509_free(x509) }
        var der = [UInt8](repeating: 0, count: Int(max(0, i2d_X509(x509, nil))))
        _ = der.withUnsafeMutableBufferPointer { bytes in
            var next = bytes.baseAddress
            return i2d_X509(x509, &next)
        }
        // The handshake has read it.
        return (try? NIOSSLCertificate(bytes: der, format: .der)).map { ClientCertificate($0, der) }
    }
}

extension ClientCertificate {
    fileprivate init(_ certificate: NIOSSLCertificate, _ der: [UInt8]) {
        let uris = certificate._subjectAlternativeNames().filter { $0.nameType == .uri }
        let end = Int64(certificate.notValidAfter).multipliedReportingOverflow(by: 1_000_000)
        self.init(
            digest: SecretDigest(of: der), uris: uris.map { String(decoding: $0.contents, as: UTF8.self) },
            dnsNames: certificate.dnsNames, expiresAt: Timestamp(microseconds: end.overflow ? .max : end.partialValue))
    }
}
