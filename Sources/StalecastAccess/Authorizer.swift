package import StalecastWire
import Synchronization

/// Finds the principal of a request's credentials, for both listeners. Refusals are counted here.
package final class Authorizer: Sendable {
    /// Listener that asks; each takes credentials of its own.
    package enum Listener: String, Sendable { case edge, control }

    package let tokens: TokenVerifier
    package let tickets: TicketBook
    package let hook: CallerHook
    private let state: Mutex<AuthorizerState>
    private let clock: @Sendable () -> Timestamp
    private let hasCertificates = Atomic<Bool>(false)

    /// - Parameters:
    ///   - bootstrap: the control token's digest; nil admits no such token.
    ///   - remembered: number of tokens, of certificates and of answers of the hook that are kept, besides those that
    ///     ``hold(_:)`` keeps.
    package init(
        bootstrap: SecretDigest? = nil, remembering remembered: Int = PrincipalNumbers.capacity,
        clock: @escaping @Sendable () -> Timestamp = Timestamp.now
    ) {
        let certificates = KnownCertificates(capacity: remembered)
        state = Mutex(AuthorizerState(bootstrap: bootstrap, certificates: certificates))
        self.clock = clock
        tokens = TokenVerifier(remembering: remembered, clock: clock)
        tickets = TicketBook(clock: clock)
        hook = CallerHook(remembering: remembered, clock: clock)
    }

    // MARK: Asking

    /// True while rules exist for which a certificate need be read.
    package var takesCertificates: Bool { hasCertificates.load(ordering: .relaxed) }

    /// Answer about credentials that are not refused.
    package enum Authentication: Sendable, Equatable {
        case known(Principal)
        /// Only at Edge: a token, a ticket or a question to the hook that must be verified first, off the loop.
        case unverified
    }

    /// Like ``authenticate(_:at:)``, for callers that have verified what must be verified.
    package func admit(_ credentials: Credentials, at listener: Listener) throws(Denial) -> Principal {
        guard case .known(let principal) = try authenticate(credentials, at: listener) else { throw .notReady }
        return principal
    }

    /// Principal of these credentials. Without any it is anonymous at Edge, and refused at Control.
    package func authenticate(_ credentials: Credentials, at listener: Listener) throws(Denial) -> Authentication {
        if let question = credentials.question, listener == .edge {
            return try hook.authenticate(question, credentials.verification)
        }
        if credentials.ticket != nil { return try authenticateTicket(of: credentials, at: listener) }
        if case .signedIn(let token)? = credentials.verification {
            guard listener == .control else { throw .malformed }
            return .known(try tokens.verify(token))
        }
        let now = clock()
        let found = try state.withLock { state throws(Denial) -> CredentialLookup in
            let plain = listener == .edge ? state.plain : []
            guard let credential = try state.credential(in: credentials, plain) else {
                if let certificate = credentials.certificate,
                    let principal = try state.certificates.principal(of: certificate, at: now)
                {
                    return .principal(principal)
                }
                if listener == .control { throw .missing }
                return .principal(state.anonymousPrincipal)
            }
            return try state.admit(credential, at: listener, plain, now)
        }
        switch found {
        case .principal(let principal): return .known(principal)
        case .token(let text, let digest):
            if let known = tokens.known(digest) { return .known(known) }
            if listener == .control { return .known(try tokens.verify(text)) }
            switch credentials.verification {
            case .refused(let denial)?: throw denial
            // Its token was verified a moment ago, but so many others came that the cache has dropped it.
            case .good?, .redeemed?, .signedIn?: throw .notReady
            case nil:
                if let denial = tokens.refusal(of: digest) ?? (tokens.isEmpty ? .unknownIssuer : nil) { throw denial }
                return .unverified
            }
        }
    }

    /// Principal that asked for the ticket, with its present grants.
    private func authenticateTicket(
        of credentials: Credentials, at listener: Listener
    ) throws(Denial) -> Authentication {
        var others = credentials
        others.ticket = nil
        guard others.isEmpty else { throw .ambiguous }
        guard listener == .edge else { throw .malformed }
        switch credentials.verification {
        case .redeemed(let ticket)?:
            guard let principal = currentPrincipal(of: ticket.principal) else { throw .revoked }
            return .known(principal)
        case .refused(let denial)?: throw denial
        case .good?, .signedIn?, nil: return .unverified
        }
    }

    /// Whether the daemon can judge these credentials itself by their form; the hook is asked about others.
    package func isOwn(_ credentials: Credentials) -> Bool {
        if credentials.ticket != nil { return true }
        return state.withLock { state in
            do throws(Denial) {
                guard let text = try state.credential(in: credentials, state.plain)?.text else { return false }
                return text.hasPrefix(APIKey.prefix) || state.plain.holds(SecretDigest(of: text))
                    || !tokens.isEmpty && SignedToken.resembles(text)
            } catch {
                return error != .malformed
            }
        }
    }

    /// Text for a session cookie in place of these credentials: the valid key or token itself.
    package func session(for credentials: Credentials) throws(Denial) -> (text: String, expiresAt: Timestamp?) {
        let principal = try admit(credentials, at: .edge)
        let text = state.withLock { state in
            // `admit` has thrown already if the credential is malformed.
            try? state.credential(in: credentials, state.plain)?.text
        }
        guard principal.kind == .key || principal.kind == .token, credentials.ticket == nil, let text else {
            throw .missing
        }
        return (text, principal.expiresAt)
    }

    /// The token among these credentials that ``TokenVerifier/look(at:_:)`` must verify before Edge can admit them.
    package func unknownToken(in credentials: Credentials) -> String? {
        if tokens.isEmpty || credentials.ticket != nil || credentials.question != nil { return nil }
        let found = state.withLock { state -> String? in
            // A malformed credential is reported by `admit`.
            guard let credential = try? state.credential(in: credentials, state.plain) else { return nil }
            return credential.isInURL ? nil : credential.text
        }
        guard let found, tokens.isUnknown(found) else { return nil }
        return found
    }

    /// Principal with this number; nil when its credential is no longer valid.
    package func currentPrincipal(of number: Int32) -> Principal? {
        let now = clock()
        switch PrincipalTable(of: number) {
        case .tokens: return tokens.currentPrincipal(of: number)
        case .hook: return hook.currentPrincipal(of: number)
        case .certificates: return state.withLock { $0.certificates.currentPrincipal(of: number, at: now) }
        case .keys:
            return state.withLock { state in
                guard number != 0 else { return state.anonymousPrincipal }
                guard let digest = state.holders[number] else { return nil }
                if state.plain.holds(digest) { return state.plainPrincipal(number) }
                return state.holder(of: digest, now)
            }
        }
    }

    /// Keeps the principal of a number known for as long as the hold lives; nil for keys and for anonymous callers,
    /// which are never forgotten.
    package func hold(_ number: Int32) -> PrincipalHold? {
        switch PrincipalTable(of: number) {
        case .keys: return nil
        case .tokens: tokens.hold(number)
        case .hook: hook.hold(number)
        case .certificates: state.withLock { $0.certificates.known.hold(number) }
        }
        // Weak: an unused ticket must not keep the authorizer that has it.
        return PrincipalHold(number) { [weak self] in self?.release(number) }
    }

    private func release(_ number: Int32) {
        switch PrincipalTable(of: number) {
        case .keys: break
        case .tokens: tokens.release(number)
        case .hook: hook.release(number)
        case .certificates: state.withLock { $0.certificates.known.release(number) }
        }
    }

    // MARK: Changing

    /// Replaces the control token, or removes it.
    ///
    /// - Returns: whether the token changed.
    @discardableResult
    package func setBootstrap(_ digest: SecretDigest?) -> Bool {
        state.withLock { state in
            defer { state.bootstrap = digest }
            return state.bootstrap != digest
        }
    }

    /// Applies a configuration.
    package func configure(
        keys: [AccessKey], plain: [String], anonymous: [Grant], issuers: [TokenIssuer] = [],
        certificates: [ClientCertificate.Rule] = []
    ) {
        // The result is not needed: `change` tells the observer in any case.
        _ = tokens.configure(issuers)
        hasCertificates.store(!certificates.isEmpty, ordering: .relaxed)
        change { state in
            state.configured = Dictionary(keys.map { ($0.id, $0) }) { first, _ in first }
            state.plain = plain.map { SecretDigest(of: $0) }
            state.anonymous = anonymous
            state.certificates.rules = certificates
        }
    }

    /// Takes an issuer's key set, as its server says it is good for `age`.
    package func fetched(_ keys: KeySet, age: Duration? = nil, of issuer: TokenIssuer) {
        if tokens.fetched(keys, age: age, of: issuer) { change { _ in } }
    }

    /// An issuer's key set could not be had.
    package func failed(_ reason: String, of issuer: TokenIssuer) {
        if tokens.failed(reason, of: issuer) { change { _ in } }
    }

    /// Takes a key that was stored, new or changed. A revocation stays: what is put may come from an older backup.
    package func put(_ key: AccessKey) {
        change { state in state.stored[key.id] = key.keepingRevocation(of: state.stored[key.id]) }
    }

    /// Forgets revoked keys: what shows them is unknown from now on.
    package func forget(_ ids: [String]) {
        state.withLock { state in
            for id in ids where state.stored[id]?.revokedAt != nil {
                state.stored[id] = nil
                state.used[id] = nil
            }
        }
    }

    /// Hears, on the changing thread, that principals may have lost something.
    package func observe(_ observer: @escaping @Sendable () -> Void) { state.withLock { $0.observer = observer } }

    private func change(_ body: (inout AuthorizerState) -> Void) {
        let observer = state.withLock { state in
            body(&state)
            return state.observer
        }
        observer?()
    }

    // MARK: Looking

    package struct Listed: Sendable {
        package let key: AccessKey
        /// Time of the key's last use since the process started; nil when it was not used.
        package let lastUsed: Timestamp?
        package let isConfigured: Bool
    }

    /// Every key, oldest first.
    package var keys: [Listed] {
        let listed = state.withLock { state -> [Listed] in
            Set(state.stored.keys).union(state.configured.keys).compactMap { state.listed($0) }
        }
        return listed.sorted { Self.order($0.key) < Self.order($1.key) }
    }

    /// Keys made through the API, in no order.
    package var storedKeys: [AccessKey] { state.withLock { Array($0.stored.values) } }

    private static func order(_ key: AccessKey) -> (Int64, String) { (key.createdAt?.microseconds ?? 0, key.id) }

    package func key(_ id: String) -> Listed? { state.withLock { $0.listed(id) } }

    // MARK: Refusals

    /// A line of the figures.
    package struct RefusedKind: Hashable, Sendable {
        package let listener: Listener
        package let reason: Denial
        /// False where it was only observed, and served.
        package let isEnforced: Bool
    }

    package struct Refused: Sendable {
        package var count = 0
        /// The first since the last look, in words without secrets.
        package var example = ""
        fileprivate var isSeen = true
    }

    package func count(
        _ reason: Denial, at listener: Listener, isEnforced: Bool, _ credentials: Credentials,
        of: @autoclosure () -> String
    ) {
        let kind = RefusedKind(listener: listener, reason: reason, isEnforced: isEnforced)
        // In a flood the words for each would cost more than the refusal.
        let isSeen = state.withLock { state in
            state.refusals[kind, default: Refused()].count += 1
            defer { state.refusals[kind]?.isSeen = false }
            return state.refusals[kind]?.isSeen ?? true
        }
        guard isSeen else { return }
        let example = "\(credentials.who) at \(String(decoding: of().utf8.prefix(200), as: UTF8.self))"
        state.withLock { $0.refusals[kind]?.example = example }
    }

    /// Refusals since the start, by kind. Marks their examples as seen.
    package var refusals: [RefusedKind: Refused] {
        state.withLock { state in
            for kind in state.refusals.keys { state.refusals[kind]?.isSeen = true }
            return state.refusals
        }
    }
}

extension [SecretDigest] {
    /// Compares with all of them, so that the time does not show which one matches.
    package func holds(_ digest: SecretDigest) -> Bool {
        reduce(false) { found, known in known.matches(digest) || found }
    }
}

extension Credentials {
    /// Name for logs.
    fileprivate var who: String { keyID.map { "key \($0)" } ?? certificateID ?? (isEmpty ? "no key" : "a credential") }

    /// Id of the certificate, where it is the only credential; for logs.
    fileprivate var certificateID: String? {
        isEmpty ? certificate.map { "certificate \($0.names.first?.prefix(200) ?? "without a name")" } : nil
    }

    /// Id of the first key that is there, if it has one; for logs.
    var keyID: String? {
        for text in texts {
            if let key = try? APIKey(text) { return key.id }  // what is no key has no id
        }
        return nil
    }
}
