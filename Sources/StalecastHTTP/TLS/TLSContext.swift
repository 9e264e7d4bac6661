import CNIOBoringSSL
import NIOSSL

/// BoringSSL's context for a listener's connections: certificates, ciphers, trusted authorities. A connection keeps its
/// own alive.
///
/// `@unchecked Sendable`: complete when it is made; BoringSSL counts and locks what its connections share.
final class TLSContext: @unchecked Sendable {
    let raw: OpaquePointer
    /// The listener's further certificates, from the second on.
    private let others: [TLSContext]
    private let names: ServerNames

    convenience init(_ material: TLSServer.Material) throws(TLSProblem) {
        var others: [TLSContext] = []
        for identity in material.identities.dropFirst() {
            others.append(try TLSContext(identity, material, others: [], names: ServerNames([])))
        }
        let names = ServerNames(material.identities.map(\.dnsNames))
        try self.init(material.identities[0], material, others: others, names: names)
    }

    private init(
        _ identity: TLSIdentity, _ material: TLSServer.Material, others: [TLSContext], names: ServerNames
    ) throws(TLSProblem) {
        guard let raw = SSL_CTX_new(TLS_server_method()) else { throw Self.problem("out of memory") }
        self.raw = raw
        self.others = others
        self.names = names
        try configure(isTLS13Only: material.isTLS13Only)
        try present(identity)
        if !material.clientAuthorities.isEmpty {
            try trust(material.clientAuthorities, isRequired: material.requiresClientCertificate)
        }
        if !others.isEmpty { chooseByName() }
    }

    deinit { SSL_CTX_free(raw) }

    private static func problem(_ reason: String) -> TLSProblem {
        TLSProblem("these certificates make no TLS server: \(reason)")
    }

    // MARK: Parts

    private func configure(isTLS13Only: Bool) throws(TLSProblem) {
        // A stream that lags gets the rest of a record from wherever its bytes are then.
        SSL_CTX_set_mode(raw, UInt32(SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER))
        // Tickets only: nothing is kept for clients that are gone.
        SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF)
        let service: [UInt8] = Array("stalecast".utf8)
        let groups = [UInt16(SSL_GROUP_X25519_MLKEM768), UInt16(SSL_GROUP_X25519), UInt16(SSL_GROUP_SECP256R1)]
        guard SSL_CTX_set_min_proto_version(raw, UInt16(isTLS13Only ? TLS1_3_VERSION : TLS1_2_VERSION)) == 1,
            SSL_CTX_set_max_proto_version(raw, UInt16(TLS1_3_VERSION)) == 1,
            SSL_CTX_set_strict_cipher_list(raw, Self.aead) == 1,
            SSL_CTX_set1_group_ids(raw, groups, groups.count) == 1,
            SSL_CTX_set_session_id_context(raw, service, service.count) == 1
        else { throw Self.problem("BoringSSL lacks a cipher") }
        preferTheCheapest()
        SSL_CTX_set_alpn_select_cb(raw, { TLSContext.choose($1, $2, $3, Int($4), $5) }, nil)
    }

    /// Lets the client choose among TLS 1.3's ciphers; left to BoringSSL where the processor knows no AES.
    private func preferTheCheapest() {
        guard EVP_has_aes_hardware() == 1 else { return }
        let ciphers = [Suite.aes128, .aes256, .chaCha20].map(\.rawValue)
        SSL_CTX_set1_tls13_ciphers(raw, ciphers, nil, ciphers.count)
    }

    /// Ciphers of TLS 1.2; those of 1.3 are all of this kind.
    private static let aead = """
        ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:\
        ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305
        """

    private func present(_ identity: TLSIdentity) throws(TLSProblem) {
        for (place, certificate) in identity.chain.enumerated() {
            let isTaken = try Self.with(certificate) { x509 in
                place == 0 ? SSL_CTX_use_certificate(raw, x509) : SSL_CTX_add1_chain_cert(raw, x509)
            }
            guard isTaken else { throw Self.problem("a certificate of \(identity.name) is refused") }
        }
        // What cannot be written as DER is a kind of key that no browser knows.
        let bytes = (try? identity.key.derBytes) ?? []
        let key = bytes.withUnsafeBufferPointer { bytes in
            var next = bytes.baseAddress
            return d2i_AutoPrivateKey(nil, &next, bytes.count)
        }
        defer { EVP_PKEY_free(key) }
        guard let key, SSL_CTX_use_PrivateKey(raw, key) == 1, SSL_CTX_check_private_key(raw) == 1 else {
            throw Self.problem("the key of \(identity.name) is of no use")
        }
    }

    private func trust(_ authorities: [NIOSSLCertificate], isRequired: Bool) throws(TLSProblem) {
        SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | (isRequired ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), nil)
        // Some clients send along a root that is not trusted.
        X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(raw), UInt(X509_V_FLAG_TRUSTED_FIRST))
        for authority in authorities {
            let isTaken = try Self.with(authority) { x509 in
                X509_STORE_add_cert(SSL_CTX_get_cert_store(raw), x509) == 1 ? SSL_CTX_add_client_CA(raw, x509) : 0
            }
            guard isTaken else { throw Self.problem("an authority of clients is refused") }
        }
    }

    private static func with(
        _ certificate: NIOSSLCertificate, _ body: (OpaquePointer) -> Int32
    ) throws(TLSProblem) -> Bool {
        // It was read from DER, or from PEM, before.
        let bytes = (try? certificate.toDERBytes()) ?? []
        let x509 = bytes.withUnsafeBufferPointer { bytes in
            var next = bytes.baseAddress
            return d2i_X509(nil, &next, bytes.count)
        }
        guard let x509 else { throw problem("a certificate cannot be read") }
        defer { X509_free(x509) }
        return body(x509) == 1
    }

    // MARK: What clients choose

    private func chooseByName() {
        SSL_CTX_set_tlsext_servername_arg(raw, Unmanaged.passUnretained(self).toOpaque())
        SSL_CTX_set_tlsext_servername_callback(raw) { ssl, _, own in
            guard let ssl, let own else { return SSL_TLSEXT_ERR_NOACK }
            // Each handshake holds the context: see ``TLSHandler``.
            let context = Unmanaged<TLSContext>.fromOpaque(own).takeUnretainedValue()
            let name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name).map { String(cString: $0) }
            let index = context.names.index(for: name)
            if index > 0 { SSL_set_SSL_CTX(ssl, context.others[index - 1].raw) }
            return SSL_TLSEXT_ERR_OK
        }
    }

    /// The best of what the client offers (ALPN): names, each after its length.
    private static func choose(
        _ chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>?, _ count: UnsafeMutablePointer<UInt8>?,
        _ offered: UnsafePointer<UInt8>?, _ length: Int, _ unused: UnsafeMutableRawPointer?
    ) -> Int32 {
        let offered = UnsafeBufferPointer(start: offered, count: length)
        for wanted in ["h2", "http/1.1"] {
            var index = 0
            while index < length {
                let name = offered.dropFirst(index + 1).prefix(Int(offered[index]))
                if name.elementsEqual(wanted.utf8), let base = offered.baseAddress {
                    chosen?.pointee = base + index + 1
                    count?.pointee = offered[index]
                    return SSL_TLSEXT_ERR_OK
                }
                index += 1 + Int(offered[index])
            }
        }
        // Goes on without ALPN, and so in HTTP/1.1, where RFC 7301 §3.2 would end the handshake.
        return SSL_TLSEXT_ERR_NOACK
    }
}
