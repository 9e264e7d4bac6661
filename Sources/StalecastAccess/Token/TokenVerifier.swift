package import StalecastWire
import Synchronization

/// Verifies tokens and finds their principals: issuers, their keys, and what was verified before. Part of
/// ``Authorizer``.
///  Signatures cost up to 80 µs: Edge has them checked on threads of their own, and serves what is known at once.
/// Control, with few callers, checks where it is asked.
package final class TokenVerifier: Sendable {
    private struct State: Sendable {
        /// Issuers by `iss`.
        var issuers: [String: IssuerState] = [:]
        var cache: PrincipalCache<VerifiedToken>
        var refused = RefusedTokens()
        var verified = 0

        func refusal(of token: SecretDigest, at now: Timestamp) -> Denial? {
            // No token is called bad while keys are missing.
            issuers.values.allSatisfy { $0.usable(at: now) != nil } ? refused.denial(of: token, at: now) : nil
        }
    }

    /// Time after which a waiting token is answered "not now": one that comes now would wait as long.
    static let patience = Duration.seconds(5)

    private let state: Mutex<State>
    private let clock: @Sendable () -> Timestamp
    private let threads = VerifierThreads()
    private let hasIssuers = Atomic<Bool>(false)

    init(remembering capacity: Int, clock: @escaping @Sendable () -> Timestamp) {
        state = Mutex(State(cache: PrincipalCache(PrincipalTable.tokens(capacity: capacity))))
        self.clock = clock
    }

    deinit { threads.stop() }

    // MARK: Asking

    /// True without issuers: every token is unknown then.
    var isEmpty: Bool { !hasIssuers.load(ordering: .relaxed) }

    /// Whether the credential must be looked at off the loop before it can be admitted.
    func isUnknown(_ text: String) -> Bool {
        guard !isEmpty, SignedToken.resembles(text) else { return false }
        let (digest, now) = (SecretDigest(of: text), clock())
        return state.withLock { state in
            state.cache.principal(of: digest, at: now) == nil && state.refusal(of: digest, at: now) == nil
        }
    }

    /// Reason for which a token was refused a moment ago, if that reason still holds; nil when the token must be
    /// verified.
    func refusal(of token: SecretDigest) -> Denial? {
        let now = clock()
        return state.withLock { $0.refusal(of: token, at: now) }
    }

    func known(_ token: SecretDigest) -> Principal? {
        let now = clock()
        return state.withLock { $0.cache.principal(of: token, at: now) }
    }

    /// Principal of a number; nil when the token is not good any more.
    func currentPrincipal(of number: Int32) -> Principal? {
        let now = clock()
        return state.withLock { $0.cache[number]?.principal.current(at: now) }
    }

    func hold(_ number: Int32) { state.withLock { $0.cache.hold(number) } }
    func release(_ number: Int32) { state.withLock { $0.cache.release(number) } }

    /// Verifies where it is called; what was verified meanwhile is known.
    func verify(_ text: String) throws(Denial) -> Principal { try verify(text, nil) }

    /// Verifies a sign-in, in the same way.
    func verify(_ token: IDToken) throws(Denial) -> Principal { try verify(token.text, token) }

    private func verify(_ text: String, _ signIn: IDToken?) throws(Denial) -> Principal {
        let (digest, now) = (signIn?.digest ?? SecretDigest(of: text), clock())
        if let known = known(digest) { return known }
        let token = try SignedToken(text)
        guard let name = token.claims["iss"]?.string else { throw .unknownIssuer }
        let (issuer, keys) = try state.withLock { state throws(Denial) in
            guard let known = state.issuers[name] else { throw .unknownIssuer }
            guard let keys = known.usable(at: now) else { throw .notReady }
            return (known.issuer, keys)
        }
        guard let rules = signIn == nil ? issuer : issuer.forSignIn else { throw .unknownIssuer }
        let found: (identity: TokenIdentity, key: TokenKey)
        do { found = try rules.verify(token, with: keys, at: signIn?.signedInAt ?? now) } catch {
            guard error == .unknownKey else { throw error }
            throw state.withLock { $0.issuers[name]?.missed(at: now) ?? false } ? .notReady : .unknownKey
        }
        try signIn?.check(token.claims, clientID: issuer.signIn?.clientID ?? "")
        let end = signIn?.end(found.identity.expiresAt) ?? found.identity.expiresAt
        guard now < end else { throw .expired }
        return try state.withLock { state throws(Denial) in
            // The configuration or the keys may have become others meanwhile.
            guard let still = state.issuers[name], still.issuer == issuer,
                still.keys?.contains(found.key.digest) ?? false
            else { throw .notReady }
            state.verified += 1
            return state.cache.insert(digest) { number in
                VerifiedToken(
                    principal: Principal(found.identity, of: issuer, number: number, until: end),
                    key: found.key.digest, issuer: name)
            }
        }
    }

    /// Verifies on a thread of its own.
    ///
    /// - Parameters:
    ///   - weight: bytes of the request that waits, beside the token.
    ///   - done: on that thread, or at once when too many wait; nil is good.
    package func verify(_ text: String, weight: Int = 0, _ done: @escaping @Sendable (Denial?) -> Void) {
        let end = clock().advanced(by: Self.patience)
        let isTaken = threads.run(weight: text.utf8.count + weight) { [self] in
            if end < clock() { return done(.notReady) }
            // The turn of before the verification: a refusal by keys that are replaced meanwhile must not be kept.
            let turn = state.withLock { $0.refused.turn }
            var denial: Denial?
            do throws(Denial) { _ = try verify(text) } catch { denial = error }
            if let denial {
                let (digest, now) = (SecretDigest(of: text), clock())
                state.withLock { $0.refused.insert(denial, of: digest, at: now, in: turn) }
            }
            done(denial)
        }
        if !isTaken { done(.notReady) }
    }

    // MARK: Keys

    /// - Returns: whether a principal may have lost something.
    func configure(_ issuers: [TokenIssuer]) -> Bool {
        hasIssuers.store(!issuers.isEmpty, ordering: .relaxed)
        return state.withLock { state in
            let before = state.issuers
            state.issuers = Dictionary(
                issuers.map { issuer in
                    let known = before[issuer.issuer]
                    return (issuer.issuer, known?.following(issuer) ?? IssuerState(issuer))
                }
            ) { first, _ in first }
            state.refused.removeAll()
            let changed = Set(before.filter { state.issuers[$0.key]?.issuer != $0.value.issuer }.keys)
            return state.cache.removeAll { changed.contains($0.issuer) }
        }
    }

    /// Issuers whose keys should be fetched now. Each is returned once, until ``fetched(_:age:of:)`` or
    /// ``failed(_:of:)`` reports the outcome.
    package func due(_ isWanted: (TokenIssuer) -> Bool = { _ in true }) -> [TokenIssuer] {
        let now = clock()
        return state.withLock { state in
            state.issuers.filter { isWanted($0.value.issuer) }.keys.sorted().compactMap { name in
                state.issuers[name]?.begins(at: now) == true ? state.issuers[name]?.issuer : nil
            }
        }
    }

    /// - Returns: whether a holder lost the key that their token is signed with.
    func fetched(_ keys: KeySet, age: Duration?, of issuer: TokenIssuer) -> Bool {
        let now = clock()
        return state.withLock { state in
            guard state.issuers[issuer.issuer]?.issuer == issuer else { return false }
            state.issuers[issuer.issuer]?.fetched(keys, age: age, at: now)
            state.refused.removeAll()
            return state.cache.removeAll { $0.issuer == issuer.issuer && !keys.contains($0.key) }
        }
    }

    /// - Returns: whether a holder lost it: keys are kept for a day.
    func failed(_ reason: String, of issuer: TokenIssuer) -> Bool {
        let now = clock()
        return state.withLock { state in
            guard state.issuers[issuer.issuer]?.issuer == issuer else { return false }
            state.issuers[issuer.issuer]?.failed(reason, at: now)
            guard state.issuers[issuer.issuer]?.usable(at: now) == nil else { return false }
            return state.cache.removeAll { $0.issuer == issuer.issuer }
        }
    }

    // MARK: Looking

    /// Issuers that people sign in to the console with, by name.
    package var signInIssuers: [TokenIssuer] {
        if isEmpty { return [] }
        let issuers = state.withLock { $0.issuers.values.map(\.issuer) }
        return issuers.filter { $0.signIn != nil }.sorted { $0.name < $1.name }
    }

    package struct Report: Sendable {
        package let name: String
        package let keys: Int
        package let skipped: Int
        package let loadedAt: Timestamp?
        package let problem: String?
    }

    /// Status of each issuer, by name.
    package var reports: [Report] {
        let now = clock()
        let reports = state.withLock { state in
            state.issuers.values.map { known in
                let keys = known.usable(at: now)
                return Report(
                    name: known.issuer.name, keys: keys?.keys.count ?? 0, skipped: keys?.skipped ?? 0,
                    loadedAt: known.loadedAt, problem: known.problem)
            }
        }
        return reports.sorted { $0.name < $1.name }
    }

    /// Tokens known by their hash now, and signatures checked since the start that were good.
    package var counts: (cached: Int, verified: Int) { state.withLock { ($0.cache.count, $0.verified) } }
}

extension Principal {
    init(_ identity: TokenIdentity, of issuer: TokenIssuer, number: Int32, until end: Timestamp) {
        self.init(
            kind: .token, id: identity.subject, name: identity.name, number: number, expiresAt: end,
            grants: identity.grants, issuer: issuer.name, email: identity.email)
    }
}
