package import Logging
package import StalecastAccess
import StalecastHTTP
package import StalecastOutbound
import StalecastWire
import Synchronization

/// Signs people in to the console with the issuers of `auth.issuers` that have a `clientID`: the authorization code flow
/// with PKCE (RFC 6749, RFC 7636, RFC 9700). The daemon exchanges the code itself. What a page may see of the ID token is
/// in the address that signs the person out: see ``OpenIDProvider/farewell(_:of:_:)``.
package final class SignInService: Sendable {
    /// Result of a sign-in that was good.
    struct SignedIn: Sendable {
        let principal: Principal
        let credentials: Credentials
        /// See ``OpenIDProvider/farewell(_:of:_:)``.
        let farewell: String?
        /// The page came over TLS.
        let isSecure: Bool
    }

    /// Line of the metric.
    package struct CountKind: Hashable, Sendable {
        package let issuer: String
        /// `ok`, or what failed.
        package let outcome: String
    }

    private struct State: Sendable {
        /// Issuers' documents by `iss`, here or on their way.
        var providers: [String: KnownProvider] = [:]
        var counts: [CountKind: Int] = [:]
        /// Times of the log's last lines.
        var logged: [CountKind: ContinuousClock.Instant] = [:]
    }

    /// One request for an issuer's document, shared by all who need it, and until when its outcome counts.
    private struct KnownProvider: Sendable {
        let issuer: TokenIssuer
        let fetch: Task<OpenIDProvider, any Error>
        var until: ContinuousClock.Instant
    }

    /// Time that an issuer's document is kept.
    private static let providerLife = Duration.seconds(600)
    /// Time in which an issuer that failed is not asked again.
    private static let failureLife = Duration.seconds(5)
    /// Shortest time between two log lines about one issuer and outcome, because any stranger can cause them.
    private static let logPause = Duration.seconds(60)
    /// A key set that a new key is missing in is fetched again within this time.
    private static let keyPatience = Duration.seconds(5)

    let flows = SignInFlows()
    private let access: Authorizer
    private let policy: AddressPolicy
    private let engine: @Sendable () throws -> OutboundEngine
    private let logger: Logger
    private let state = Mutex(State())
    private let files = SecretFiles(patience: SignInService.limits.timeout) { try ClientSecret.read($0) }

    /// - Parameter engine: makes the requests to issuers; called once for each.
    package init(
        _ access: Authorizer, policy: AddressPolicy, logger: Logger,
        engine: @escaping @Sendable () throws -> OutboundEngine
    ) {
        (self.access, self.policy, self.logger, self.engine) = (access, policy, logger, engine)
    }

    /// Names of the issuers that people can sign in with.
    var names: [String] { access.tokens.signInIssuers.map(\.name) }

    /// Sign-ins since the start, by issuer and outcome.
    package var counts: [CountKind: Int] { state.withLock { $0.counts } }

    // MARK: The flow

    /// - Parameters:
    ///   - origin: the console's, `https://HOST:PORT`.
    ///   - address: the browser's; nil is not limited.
    /// - Returns: the address to go to, and the value of the flow's cookie.
    func begin(
        _ name: String, origin: String, from address: String?
    ) async throws(SignInFailure) -> (location: String, cookie: String) {
        guard let (issuer, client) = issuer(name) else { throw .foreign }
        return try await counting(name) { () async throws(SignInFailure) in
            guard let (flow, cookie) = self.flows.begin(issuer, client, origin: origin, from: address) else {
                throw .overRate()
            }
            let provider = try await self.provider(issuer)
            return (provider.authorizationAddress(flow, client), cookie)
        }
    }

    /// Takes the issuer's answer, as the browser brings it.
    func end(_ name: String, _ query: QueryParameters, cookie: String?) async throws(SignInFailure) -> SignedIn {
        guard let (issuer, client) = issuer(name) else { throw .foreign }
        return try await counting(name, isEnd: true) { () async throws(SignInFailure) in
            guard let cookie, let flow = self.flows.take(cookie, issuer, client, state: query["state"] ?? "")
            else { throw .foreign }
            let provider = try await self.provider(issuer)
            // An answer of another issuer (RFC 9207, RFC 9700 §4.4).
            let isNamed = query["iss"].map { $0.utf8.elementsEqual(issuer.issuer.utf8) } ?? !provider.namesItself
            guard isNamed else { throw .foreign }
            // The query's `error_description`: names with underscores are kept in camel case.
            if let error = query["error"] { throw .refused(name, error, query["errorDescription"]) }
            guard let code = query["code"] else { throw .refused(name, "no code", nil) }
            let text = try await self.exchange(code, flow, issuer, client, provider)
            let token = IDToken(text, of: issuer, nonce: flow.nonce, at: .now())
            var credentials = Credentials()
            credentials.verification = .signedIn(token)
            let principal = try await self.admit(credentials, name, size: text.utf8.count)
            guard principal.maySomewhere(.read) else { throw .notGranted(name, principal) }
            return SignedIn(
                principal: principal, credentials: credentials,
                farewell: provider.farewell(text, of: issuer, client), isSecure: flow.isSecure)
        }
    }

    private func issuer(_ name: String) -> (TokenIssuer, TokenIssuer.SignIn)? {
        guard let issuer = access.tokens.signInIssuers.first(where: { $0.name == name }), let client = issuer.signIn
        else { return nil }
        return (issuer, client)
    }

    /// - Parameter isEnd: a success is counted.
    private func counting<Value: Sendable>(
        _ name: String, isEnd: Bool = false, _ body: () async throws(SignInFailure) -> Value
    ) async throws(SignInFailure) -> Value {
        do {
            let value = try await body()
            if isEnd { count(name, "ok") }
            return value
        } catch {
            let mayLog = count(name, error.kind.rawValue)
            // These tell the operator nothing.
            guard mayLog, error.kind != .foreign, error.kind != .overRate else { throw error }
            logger.warning(
                "sign-in with an issuer failed",
                metadata: ["issuer": "\(name)", "reason": "\(error.kind.rawValue)", "error": "\(error.cause)"])
            throw error
        }
    }

    /// - Returns: whether the log has room for a line about it.
    @discardableResult
    private func count(_ name: String, _ outcome: String) -> Bool {
        let (kind, now) = (CountKind(issuer: name, outcome: outcome), ContinuousClock.now)
        return state.withLock { state in
            state.counts[kind, default: 0] += 1
            if let logged = state.logged[kind], now - logged < Self.logPause { return false }
            state.logged[kind] = now
            return true
        }
    }

    /// Waits for a key that the issuer's set has since a moment ago.
    private func admit(
        _ credentials: Credentials, _ name: String, size: Int
    ) async throws(SignInFailure) -> Principal {
        let start = ContinuousClock.now
        while true {
            do throws(Denial) { return try access.admit(credentials, at: .control) } catch {
                guard error == .notReady, ContinuousClock.now - start < Self.keyPatience,
                    (try? await Task.sleep(for: .milliseconds(200))) != nil  // cancelled: false
                else { throw .badToken(name, error, size: size) }
            }
        }
    }

    // MARK: Requests

    private func provider(_ issuer: TokenIssuer) async throws(SignInFailure) -> OpenIDProvider {
        let now = ContinuousClock.now
        let fetch = state.withLock { state in
            if let known = state.providers[issuer.issuer], known.issuer == issuer, now < known.until {
                return known.fetch
            }
            // Ends by itself, within the request's time limit.
            let fetch = Task { try await self.fetch(issuer) }
            state.providers[issuer.issuer] = KnownProvider(
                issuer: issuer, fetch: fetch, until: now + Self.providerLife)
            return fetch
        }
        do { return try await fetch.value } catch {
            let end = ContinuousClock.now + Self.failureLife
            state.withLock { state in
                guard let known = state.providers[issuer.issuer], known.fetch == fetch, known.until > end else {
                    return
                }
                state.providers[issuer.issuer]?.until = end
            }
            throw .unavailable(issuer.name, "\(error)")
        }
    }

    private func fetch(_ issuer: TokenIssuer) async throws -> OpenIDProvider {
        let (status, body) = try await send(
            to: issuer, at: try OpenIDProvider.place(of: issuer),
            headers: [OutboundHeader(trusted: "accept", "application/json")])
        guard status == 200 else { throw OpenIDProvider.Unusable(description: "its document: status \(status)") }
        let provider = try OpenIDProvider(body, of: issuer)
        if let problem = provider.problem {
            logger.warning(
                "sign-outs end only here, not at the issuer",
                metadata: ["issuer": "\(issuer.name)", "error": "\(problem)"])
        }
        return provider
    }

    /// - Returns: the ID token.
    private func exchange(
        _ code: String, _ flow: SignInFlows.Flow, _ issuer: TokenIssuer, _ client: TokenIssuer.SignIn,
        _ provider: OpenIDProvider
    ) async throws(SignInFailure) -> String {
        let answer: (status: Int, body: [UInt8])
        do {
            var secret: String?
            if let path = client.secretFile { secret = try await files.read(path) }
            let (headers, body) = try provider.exchange(code, flow, client, secret: secret)
            answer = try await send("POST", to: issuer, at: provider.token, headers: headers, body: body)
        } catch {
            throw .unavailable(issuer.name, "\(error)")
        }
        let json = JSONValue.ifValid(answer.body, maxDepth: 16)
        if answer.status == 200, let token = json?["id_token"]?.string { return token }
        // Refusals are JSON of status 400, or 401 for a wrong client (RFC 6749, section 5.2).
        if let error = json?["error"]?.string {
            throw .refused(issuer.name, error, json?["error_description"]?.string)
        }
        throw .unavailable(issuer.name, "its token endpoint answered \(answer.status) without an ID token")
    }

    private static let limits = OutboundLimits(
        timeout: .seconds(10), maxBodyBytes: OpenIDProvider.maxBytes, overflow: .fail)

    /// Redirects are not followed.
    private func send(
        _ method: String = "GET", to issuer: TokenIssuer, at url: OutboundURL, headers: [OutboundHeader],
        body: [UInt8]? = nil
    ) async throws -> (status: Int, body: [UInt8]) {
        let request = OutboundRequest(
            method: method, url: url, headers: headers, body: body, limits: Self.limits, policy: policy,
            tls: issuer.keys.caFile.map { OutboundTLS(caFile: $0) })
        switch await (try engine()).send(request).result {
        case .failed(let failure): throw failure
        case .answered(let status, _, let body, _): return (status, body)
        }
    }
}
