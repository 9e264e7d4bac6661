import NIOSSL

/// The PEM files with which members are reached by TLS. They are read for each new connection, so that what replaces
/// them is used without a restart; connections that are open stay as they are.
package struct EtcdTLS: Sendable {
    /// File with the authorities that may have signed the members' certificates; nil: those of the system.
    package var authorities: String?
    /// A certificate of our own with its chain, and its key, where members ask for one.
    package var certificate: (chain: String, key: String)?

    package init(authorities: String? = nil, certificate: (chain: String, key: String)? = nil) {
        self.authorities = authorities
        self.certificate = certificate
    }

    /// - Throws: ``EtcdFailure/notSent(_:)`` with the file that is of no use.
    func context() throws(EtcdFailure) -> NIOSSLContext {
        var configuration = TLSConfiguration.makeClientConfiguration()
        // ALPN is how HTTP/2 begins over TLS (RFC 9113, section 3.2).
        configuration.applicationProtocols = ["h2"]
        if let authorities {
            let found = try Self.read(authorities) { try NIOSSLCertificate.fromPEMFile($0) }
            configuration.trustRoots = .certificates(found)
        }
        if let certificate {
            configuration.certificateChain = try Self.read(certificate.chain) { path in
                try NIOSSLCertificate.fromPEMFile(path).map { .certificate($0) }
            }
            configuration.privateKey = .privateKey(
                try Self.read(certificate.key) { try NIOSSLPrivateKey(file: $0, format: .pem) })
        }
        let made = configuration
        return try Self.read(certificate?.chain ?? authorities ?? "TLS") { _ in try NIOSSLContext(configuration: made) }
    }

    private static func read<Content>(
        _ path: String, _ read: (String) throws -> Content
    ) throws(EtcdFailure) -> Content {
        do { return try read(path) } catch { throw .notSent("\(path) cannot be used: \(error)") }
    }
}
