package import NIOSSL

package struct TLSIdentity: Sendable {
    /// The server's own certificate first, its issuers after it.
    package let chain: [NIOSSLCertificate]
    let key: NIOSSLPrivateKey
    /// Name that the operator gave to the certificate: its path.
    package let name: String
    /// The DNS names it is for, in lower case; one may begin with `*.`.
    package let dnsNames: [String]

    package var term: CertificateTerm { CertificateTerm(chain) }

    /// - Parameters:
    ///   - certificate: PEM, of the chain; `name` is what errors call it.
    ///   - key: PEM, not encrypted; `keyName` likewise.
    /// - Throws: ``TLSProblem``, a sentence that names the file.
    package init(certificate: [UInt8], name: String, key: [UInt8], keyName: String) throws(TLSProblem) {
        chain = try Self.certificates(certificate, name)
        self.name = name
        dnsNames = chain[0].dnsNames
        do { self.key = try NIOSSLPrivateKey(bytes: key, format: .pem) } catch {
            throw TLSProblem(Self.sentence(ofUnreadable: key, keyName))
        }
        try match(keyName)
    }

    /// The certificates of a PEM file; at least one.
    package static func certificates(_ pem: [UInt8], _ name: String) throws(TLSProblem) -> [NIOSSLCertificate] {
        do {
            let found = try NIOSSLCertificate.fromPEMBytes(pem)
            if !found.isEmpty { return found }
        } catch {}  // BoringSSL's reason would not help the operator
        throw TLSProblem("\(name) holds no certificate in PEM: it should have a line -----BEGIN CERTIFICATE-----")
    }

    private static func sentence(ofUnreadable key: [UInt8], _ name: String) -> String {
        let text = String(decoding: key, as: UTF8.self)
        if text.contains("ENCRYPTED") {
            return "\(name) is encrypted, and the daemon cannot ask for its passphrase; write it without one: "
                + "openssl pkey -in \(name) -out FILE"
        }
        let hint = text.contains("BEGIN CERTIFICATE") ? "; it holds a certificate: are the two files mixed up?" : ""
        return "\(name) holds no private key in PEM: it should have a line -----BEGIN PRIVATE KEY-----\(hint)"
    }

    private func match(_ keyName: String) throws(TLSProblem) {
        do { _ = try TLSContext(TLSServer.Material([self])) } catch {
            throw TLSProblem(
                "\(keyName) is not the key of \(name): the server's own certificate comes first in that file, its "
                    + "issuers after it")
        }
    }

    /// Warning for the operator at that second since 1970; nil when all is well.
    package func warning(at now: Int) -> String? {
        let judgement = term.judgement(at: now)
        guard let sentence = judgement.sentence else { return nil }
        if case .invalid = judgement, now >= term.notAfter {
            return "\(name) \(sentence): clients refuse it. Put a new one in its place; it is taken up without a "
                + "restart"
        }
        return "\(name) \(sentence)"
    }
}

/// Reason why certificates are of no use; a sentence for the operator.
package struct TLSProblem: Error, Hashable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

extension NIOSSLCertificate {
    /// The DNS names among the subject's alternative names, in lower case. A common name counts for nothing: no client
    /// of this century looks at it.
    package var dnsNames: [String] {
        _subjectAlternativeNames().compactMap { name in
            guard name.nameType == .dnsName else { return nil }
            // ASCII only: a letter of another script that folds to an ASCII letter does not count.
            let bytes = name.contents.map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 }
            return String(decoding: bytes, as: UTF8.self)
        }
    }
}
