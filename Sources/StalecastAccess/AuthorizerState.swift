import StalecastWire

/// Keys, tickets and tokens that an ``Authorizer`` knows.
struct AuthorizerState: Sendable {
    var bootstrap: SecretDigest?
    /// Made through the API.
    var stored: [String: AccessKey] = [:]
    /// Keys of the configuration; they win.
    var configured: [String: AccessKey] = [:]
    /// `edge.apiKeys`.
    var plain: [SecretDigest] = []
    var anonymous: [Grant] = []
    var holders = Holders()
    var certificates: KnownCertificates
    var used: [String: Timestamp] = [:]
    var refusals: [Authorizer.RefusedKind: Authorizer.Refused] = [:]
    var observer: (@Sendable () -> Void)?

    func key(_ id: String) -> AccessKey? { configured[id] ?? stored[id] }
}

/// Result of looking a credential up.
enum CredentialLookup {
    case principal(Principal)
    /// Token to be verified outside the lock.
    case token(String, SecretDigest)
}

extension AuthorizerState {
    func listed(_ id: String) -> Authorizer.Listed? {
        key(id).map { Authorizer.Listed(key: $0, lastUsed: used[id], isConfigured: configured[id] != nil) }
    }

    var anonymousPrincipal: Principal {
        Principal(kind: .anonymous, id: "anonymous", grants: anonymous)
    }

    func plainPrincipal(_ number: Int32) -> Principal {
        Principal(
            kind: .key, id: "edge.apiKeys", number: number, grants: [Grant(actions: [.watch, .fetch])])
    }

    /// - Parameter plain: of the listener.
    func credential(in credentials: Credentials, _ plain: [SecretDigest]) throws(Denial) -> Credential? {
        try credentials.only { text in !plain.isEmpty && plain.holds(SecretDigest(of: text)) }
    }

    mutating func admit(
        _ credential: Credential, at listener: Authorizer.Listener, _ plain: [SecretDigest], _ now: Timestamp
    ) throws(Denial) -> CredentialLookup {
        let digest = SecretDigest(of: credential.text)
        // Control's token may be any text, also one that looks like a key or a JWT: it is compared before that.
        if listener == .control, let bootstrap, bootstrap.matches(digest), !credential.isInURL {
            return .principal(Principal(kind: .bootstrap, id: "bootstrap", grants: [Grant(role: .operator)]))
        }
        if plain.holds(digest) { return .principal(plainPrincipal(holders.number(of: digest))) }
        if SignedToken.resembles(credential.text) {
            if credential.isInURL { throw .leaked }
            return .token(credential.text, digest)
        }
        let parsed: APIKey
        do { parsed = try APIKey(credential.text) } catch { throw error == .typo ? .typo : .unknown }
        let key = key(parsed.id)
        let secret = key?.secrets.first { $0.digest.matches(digest) }
        // An id that is not there takes as long as a wrong secret.
        if key == nil { _ = SecretDigest.none.matches(digest) }
        guard let key, let secret, key.kind == parsed.kind else { throw .unknown }
        if parsed.kind == .secret, credential.isInURL { throw .leaked }
        let end = try key.currentPrincipal(of: secret, at: now)
        used[key.id] = now
        return .principal(key.principal(number: holders.number(of: digest, in: key.id), until: end))
    }

    /// The key of a secret that was admitted once.
    func holder(of digest: SecretDigest, _ now: Timestamp) -> Principal? {
        guard let (id, number) = holders.place(of: digest), let key = key(id),
            let secret = key.secrets.first(where: { $0.digest == digest })
        else { return nil }
        do { return key.principal(number: number, until: try key.currentPrincipal(of: secret, at: now)) } catch {
            return nil
        }
    }
}

extension AccessKey {
    fileprivate func principal(number: Int32, until end: Timestamp?) -> Principal {
        Principal(kind: .key, id: id, name: name, number: number, expiresAt: end, grants: effectiveGrants)
    }
}

/// Numbers for credentials, from 1. Only good ones get one, so there are no more than operators have made.
struct Holders: Sendable {
    private var numbers: [SecretDigest: (number: Int32, key: String)] = [:]
    private var digests: [SecretDigest] = []

    subscript(number: Int32) -> SecretDigest? {
        digests.indices.contains(Int(number) - 1) ? digests[Int(number) - 1] : nil
    }

    /// - Parameter key: its id; empty for a text of `edge.apiKeys`.
    mutating func number(of digest: SecretDigest, in key: String = "") -> Int32 {
        if let known = numbers[digest] { return known.number }
        digests.append(digest)
        numbers[digest] = (Int32(digests.count), key)
        return Int32(digests.count)
    }

    func place(of digest: SecretDigest) -> (key: String, number: Int32)? {
        numbers[digest].map { ($0.key, $0.number) }
    }
}
