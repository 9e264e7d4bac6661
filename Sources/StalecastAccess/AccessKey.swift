package import StalecastWire

/// Record of an API key: everything but the key itself.
package struct AccessKey: Sendable, Hashable {
    package var id: String
    package let kind: APIKey.Kind
    /// Purpose of the key; at most 128 bytes, may be empty.
    package var name: String
    package var grants: [Grant]
    /// The newest first; two while a rotation's overlap lasts.
    package var secrets: [Secret]
    package var createdAt: Timestamp?
    /// nil is at once.
    package var notBefore: Timestamp?
    /// nil is never.
    package var expiresAt: Timestamp?
    package var revokedAt: Timestamp?

    package struct Secret: Sendable, Hashable {
        package let digest: SecretDigest
        /// Time at which a replaced secret stops being valid; nil for the current one.
        package var expiresAt: Timestamp?

        package init(_ digest: SecretDigest, expiresAt: Timestamp? = nil) {
            self.digest = digest
            self.expiresAt = expiresAt
        }
    }

    /// Time that a replaced secret stays valid unless the caller says otherwise.
    package static let overlap: Duration = .seconds(7 * 86_400)
    package static let maxSecrets = 2

    package init(
        id: String, kind: APIKey.Kind, name: String = "", grants: [Grant], secrets: [Secret],
        createdAt: Timestamp? = nil, notBefore: Timestamp? = nil, expiresAt: Timestamp? = nil
    ) {
        (self.id, self.kind, self.name, self.grants) = (id, kind, name, grants)
        (self.secrets, self.createdAt, self.notBefore, self.expiresAt) = (secrets, createdAt, notBefore, expiresAt)
    }

    /// Takes a new secret. The previous one stays valid until the overlap is over; older ones end now.
    package mutating func rotate(to digest: SecretDigest, at now: Timestamp, overlap: Duration = overlap) {
        let end = now.advanced(by: overlap)
        let former = secrets.prefix(Self.maxSecrets - 1).map { secret in
            Secret(secret.digest, expiresAt: min(secret.expiresAt ?? end, end))
        }
        secrets = [Secret(digest)] + former
    }

    /// The key, revoked if `known` is: a revocation cannot be taken back by an older or newer state of the key.
    package func keepingRevocation(of known: AccessKey?) -> AccessKey {
        var key = self
        key.revokedAt = [revokedAt, known?.revokedAt].compactMap(\.self).min()
        return key
    }

    /// False for a key that is revoked or expired: it admits no caller any more.
    package func isLive(at now: Timestamp) -> Bool {
        !(revokedAt.map { $0 <= now } ?? false) && !(expiresAt.map { $0 <= now } ?? false)
    }

    /// Whether a secret of this key may be used now, and until when.
    func currentPrincipal(of secret: Secret, at now: Timestamp) throws(Denial) -> Timestamp? {
        if let revokedAt, revokedAt <= now { throw .revoked }
        if let notBefore, now < notBefore { throw .notYet }
        let end = [expiresAt, secret.expiresAt].compactMap { $0 }.min()
        if let end, end <= now { throw .expired }
        return end
    }

    /// Grants that take effect. Anyone can read a publishable key in an app or a page, so it never gets more than
    /// `watch` and `fetch`, whatever it was granted.
    var effectiveGrants: [Grant] {
        guard kind == .publishable else { return grants }
        return grants.map { grant in
            let actions = grant.actions.union(grant.role?.actions ?? []).intersection([.watch, .fetch])
            return Grant(
                actions: actions, projects: grant.projects, namespaces: grant.namespaces, topics: grant.topics)
        }
    }
}
