import CNIOBoringSSL

/// Parts that very many connections to one TLS server share: the trusted authorities, and the name that the server must
/// have.
///
/// `@unchecked Sendable`: complete when it is made; BoringSSL counts and locks what its connections share.
package final class TLSClient: @unchecked Sendable {
    private let raw: OpaquePointer
    private let host: String

    /// - Parameters:
    ///   - host: a name or an address, which the certificate must be for.
    ///   - caFile: PEM file of the authorities trusted; nil: the system's.
    /// - Throws: ``TLSProblem`` when the file cannot be read.
    package init(host: String, caFile: String?) throws(TLSProblem) {
        guard let raw = SSL_CTX_new(TLS_client_method()) else { throw TLSProblem("out of memory") }
        self.raw = raw
        self.host = host
        SSL_CTX_set_mode(raw, UInt32(SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER))
        SSL_CTX_set_verify(raw, SSL_VERIFY_PEER, nil)
        guard let caFile else {
            SSL_CTX_set_default_verify_paths(raw)
            return
        }
        guard SSL_CTX_load_verify_locations(raw, caFile, nil) == 1 else {
            throw TLSProblem("no authorities can be read from \(caFile)")
        }
    }

    deinit { SSL_CTX_free(raw) }

    /// A connection over a non-blocking socket that stands; its handshake begins with the first call that needs it.
    package func session(over fd: Int32) throws(TLSProblem) -> TLSSession {
        let ssl = try TLSSession.newSSL(raw)
        SSL_set_connect_state(ssl)
        SSL_set_shed_handshake_config(ssl, 1)
        if X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) != 1 {
            SSL_set_tlsext_host_name(ssl, host)
            SSL_set1_host(ssl, host)
        }
        let session = TLSSession(ssl)
        session.use(fd)
        return session
    }
}
