package import StalecastWire

/// Certificate that a client showed in the handshake, after the listener's authorities were found to stand behind it.
package struct ClientCertificate: Sendable, Hashable {
    /// Digest of all of it.
    package let digest: SecretDigest
    /// Names that it certifies: one SPIFFE id, else DNS names in lower case. A common name counts for nothing.
    package let names: [String]
    package let expiresAt: Timestamp

    /// - Parameters: the URIs and DNS names among the subject's alternative names. Beside a URI nothing else counts,
    ///   and a SPIFFE certificate has one only.
    package init(digest: SecretDigest, uris: [String], dnsNames: [String], expiresAt: Timestamp) {
        self.digest = digest
        self.expiresAt = expiresAt
        if uris.isEmpty {
            // A name that stands for many identifies no client.
            names = dnsNames.filter { $0.isWord(1...Int.max, and: "-._") }.map { $0.lowercased() }
        } else {
            names = uris.filter { uris.count == 1 && Self.isSPIFFE($0) }
        }
    }

    package static let scheme = "spiffe://"

    private static func isSPIFFE(_ uri: String) -> Bool {
        uri.hasPrefix(scheme) && uri.isWord(scheme.utf8.count + 1...2048, and: "-._:/")
    }

    /// A grant for certificates with such a name.
    package struct Rule: Sendable, Hashable {
        /// `spiffe://…` is compared with SPIFFE ids only, what does not begin so with DNS names only.
        package let name: Glob
        package let grant: Grant

        package init(name: Glob, grant: Grant) {
            self.name = name
            self.grant = grant
        }
    }
}

/// Certificates that were taken, by number, and what the configuration says of them.
struct KnownCertificates: Sendable {
    var rules: [ClientCertificate.Rule] = []
    var known: PrincipalCache<ClientCertificate>

    init(capacity: Int) { known = PrincipalCache(PrincipalTable.certificates(capacity: capacity)) }

    /// nil for one that no rule is about.
    mutating func principal(of certificate: ClientCertificate, at now: Timestamp) throws(Denial) -> Principal? {
        guard let match = match(certificate) else { return nil }
        if certificate.expiresAt <= now { throw .expired }
        if let (number, _) = known[certificate.digest] { return principal(certificate, match, number) }
        let number = known.newNumber()
        known.insert(certificate, as: number, of: certificate.digest)
        return principal(certificate, match, number)
    }

    func currentPrincipal(of number: Int32, at now: Timestamp) -> Principal? {
        guard let certificate = known[number], now < certificate.expiresAt, let match = match(certificate) else {
            return nil
        }
        return principal(certificate, match, number)
    }

    private func match(_ certificate: ClientCertificate) -> (name: String, grants: [Grant])? {
        let fitting = rules.filter { rule in certificate.names.contains { rule.name.matches($0) } }
        let name = certificate.names.first { name in fitting.contains { $0.name.matches(name) } }
        return name.map { ($0, fitting.map(\.grant)) }
    }

    private func principal(
        _ certificate: ClientCertificate, _ match: (name: String, grants: [Grant]), _ number: Int32
    ) -> Principal {
        Principal(
            kind: .certificate, id: match.name, number: number, expiresAt: certificate.expiresAt, grants: match.grants)
    }
}
