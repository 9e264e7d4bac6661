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
            names = dnsNames.filter { name in
                !name.isEmpty && name.utf8.allSatisfy { $0.isASCIIAlphanumeric || "-._".utf8.contains($0) }
            }.map { $0.lowercased() }
        } else {
            names = uris.filter { uris.count == 1 && Self.isSPIFFE($0) }
        }
    }

    package static let scheme = "spiffe://"

    private static func isSPIFFE(_ uri: String) -> Bool {
        uri.hasPrefix(scheme) && uri.utf8.count > scheme.utf8.count && uri.utf8.count <= 2048
            && uri.utf8.allSatisfy { $0.isASCIIAlphanumeric || "-._:/".utf8.contains($0) }
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
    private var numbers: [SecretDigest: Int32] = [:]
    private var certificates: [Int32: ClientCertificate] = [:]
    private var order: PrincipalNumbers

    init(capacity: Int) { order = PrincipalTable.certificates(capacity: capacity) }

    /// nil for one that no rule is about.
    mutating func principal(of certificate: ClientCertificate, at now: Timestamp) throws(Denial) -> Principal? {
        guard let (name, grants) = match(certificate) else { return nil }
        if certificate.expiresAt <= now { throw .expired }
        // First, because a table that is referenced twice while it changes is copied.
        let number = number(of: certificate)
        return principal(certificate, name, grants, number)
    }

    func currentPrincipal(of number: Int32, at now: Timestamp) -> Principal? {
        guard let certificate = certificates[number], now < certificate.expiresAt,
            let (name, grants) = match(certificate)
        else { return nil }
        return principal(certificate, name, grants, number)
    }

    private func match(_ certificate: ClientCertificate) -> (name: String, grants: [Grant])? {
        let fitting = rules.filter { rule in certificate.names.contains { rule.name.matches($0) } }
        guard !fitting.isEmpty,
            let name = certificate.names.first(where: { name in fitting.contains { $0.name.matches(name) } })
        else { return nil }
        return (name, fitting.map(\.grant))
    }

    private func principal(
        _ certificate: ClientCertificate, _ name: String, _ grants: [Grant], _ number: Int32
    ) -> Principal {
        Principal(kind: .certificate, id: name, number: number, expiresAt: certificate.expiresAt, grants: grants)
    }

    private mutating func number(of certificate: ClientCertificate) -> Int32 {
        if let known = numbers[certificate.digest] { return known }
        if order.isUsedUp {
            (numbers, certificates) = ([:], [:])
            order.reset()
        }
        let (number, forgotten) = order.take()
        if let forgotten { remove(forgotten) }
        numbers[certificate.digest] = number
        certificates[number] = certificate
        return number
    }

    private mutating func remove(_ number: Int32) {
        if let old = certificates.removeValue(forKey: number) { numbers[old.digest] = nil }
    }

    mutating func hold(_ number: Int32) { order.hold(number) }

    mutating func release(_ number: Int32) {
        if order.release(number) { remove(number) }
    }
}
