import Crypto
import CryptoExtras
import Foundation
import StalecastWire
import Synchronization

/// The access token of one service account and scope: fetched when it is first needed, kept, renewed before it ends.
package final class AccessTokens: Sendable {
    private let assertion: Assertion
    private let tokenURL: OutboundURL
    private let engine: OutboundEngine
    private let policy: AddressPolicy
    private let state = Mutex(State())

    private struct Token: Sendable {
        let text: String
        let renewal: ContinuousClock.Instant
        let end: ContinuousClock.Instant
    }

    private struct State {
        var token: Token?
        var fetch: Task<String, any Error>?
        /// Seconds that are added to this machine's clock to get the endpoint's.
        var clockOffset: Int64 = 0
    }

    /// A token is renewed this long before its end, the time that Google's libraries leave.
    private static let margin = Duration.seconds(225)

    /// - Parameters:
    ///   - scope: of OAuth, several separated by blanks.
    ///   - tokenURL: instead of the key file's.
    ///   - policy: which addresses the token endpoint may have.
    package init(
        account: ServiceAccount, scope: String, tokenURL: OutboundURL? = nil, engine: OutboundEngine,
        policy: AddressPolicy
    ) {
        self.tokenURL = tokenURL ?? account.tokenURL
        assertion = Assertion(account: account, scope: scope, audience: self.tokenURL)
        self.engine = engine
        self.policy = policy
    }

    /// A token that can be used now without a request; nil when there is none. Close to its end a new one is
    /// fetched meanwhile.
    package var current: String? {
        let now = ContinuousClock.now
        let (text, isDue) = state.withLock { state -> (String?, Bool) in
            guard let token = state.token, token.end > now else { return (nil, false) }
            return (token.text, token.renewal <= now && state.fetch == nil)
        }
        if isDue { _ = fetch() }
        return text
    }

    /// A token, fetched if need be; callers at the same time share one request.
    /// - Throws: ``AccessTokens/Failure``, or ``ServiceAccount/Invalid`` when the key cannot sign.
    package func token() async throws -> String {
        if let current { return current }
        return try await fetch().value
    }

    /// Forgets the token: a server has refused it.
    package func invalidate() { state.withLock { $0.token = nil } }

    private func fetch() -> Task<String, any Error> {
        state.withLock { state in
            if let fetch = state.fetch { return fetch }
            // Ends with the request's timeout.
            let fetch = Task {
                defer { self.state.withLock { $0.fetch = nil } }
                return try await self.exchange(mayCorrectClock: true)
            }
            state.fetch = fetch
            return fetch
        }
    }

    private func exchange(mayCorrectClock: Bool) async throws -> String {
        let outcome = await engine.send(try request())
        switch outcome.result {
        case .failed(let failure):
            throw Failure("\(tokenURL.host) gave no token: \(failure.ownerText)", isRefusal: false)
        case .answered(200, _, let body, _):
            return try keep(body)
        case .answered(let status, let headers, let body, _):
            if mayCorrectClock, status == 400 || status == 401, correctClock(headers["date"]) {
                return try await exchange(mayCorrectClock: false)
            }
            throw Failure.answer(status, body, host: tokenURL.host)
        }
    }

    private func request() throws -> OutboundRequest {
        let offset = state.withLock { $0.clockOffset }
        let signed = try assertion.signed(at: Int64(Date().timeIntervalSince1970) + offset)
        let grant = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"
        return OutboundRequest(
            method: "POST", url: tokenURL,
            headers: [
                OutboundHeader(trusted: "content-type", "application/x-www-form-urlencoded"),
                OutboundHeader(trusted: "accept", "application/json"),
            ],
            body: Array("grant_type=\(grant)&assertion=\(signed)".utf8),
            limits: OutboundLimits(maxBodyBytes: 32 << 10, overflow: .fail), policy: policy, keptHeaders: ["date"])
    }

    private func keep(_ body: [UInt8]) throws(Failure) -> String {
        guard case .object(let members)? = try? JSONValue.parse(body),
            case .string(let text)? = members["access_token"],
            text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
        else { throw Failure("\(tokenURL.host) answered 200 without an access_token", isRefusal: false) }
        var lifetime: Int64 = 3599
        if case .number(let number)? = members["expires_in"], let seconds = Int64(number) { lifetime = seconds }
        let now = ContinuousClock.now
        let length = Duration.seconds(min(max(1, lifetime), 86_400))
        // A token of less than 225 s would be due from its first moment with the margin alone.
        let token = Token(
            text: text, renewal: now + max(length - Self.margin, length / 2),
            end: now + max(length * 9 / 10, length - .seconds(30)))
        state.withLock { $0.token = token }
        return text
    }

    /// True when the endpoint's clock shows a time so different that it explains why an assertion was refused.
    private func correctClock(_ date: String?) -> Bool {
        guard let date, let theirs = HTTPDate.timestamp(date) else { return false }
        let offset = theirs.microseconds / 1_000_000 - Int64(Date().timeIntervalSince1970)
        return state.withLock { state in
            guard abs(offset - state.clockOffset) > 30 else { return false }
            state.clockOffset = offset
            return true
        }
    }

    /// Reason why there is no access token.
    package struct Failure: Error, Sendable, CustomStringConvertible {
        package let description: String
        /// True when the endpoint refused the account, so that asking again is of little use.
        package let isRefusal: Bool

        init(_ description: String, isRefusal: Bool) {
            self.description = description
            self.isRefusal = isRefusal
        }

        /// Failure from the endpoint's `{"error": …, "error_description": …}`.
        static func answer(_ status: Int, _ body: [UInt8], host: String) -> Failure {
            var words: [String] = []
            if case .object(let members)? = try? JSONValue.parse(body) {
                for name in ["error", "error_description"] {
                    if case .string(let text)? = members[name] { words.append(String(text.prefix(200))) }
                }
            }
            let said = words.isEmpty ? "" : ": " + words.joined(separator: ": ")
            return Failure(
                "\(host) refused the service account with status \(status)\(said)",
                isRefusal: (400..<500).contains(status))
        }
    }

    /// The signed statement that a service account exchanges for an access token (RFC 7523, RS256).
    struct Assertion {
        /// Lifetime in seconds; Google takes at most an hour.
        static let lifetime: Int64 = 3600

        let account: ServiceAccount
        let scope: String
        /// URL to which it is sent, and for which alone it is good: another server that gets hold of it cannot exchange
        /// it.
        let audience: OutboundURL

        /// - Parameter time: seconds since 1970 as the token endpoint's clock shows them.
        func signed(at time: Int64) throws -> String {
            var header: JSONObject = ["alg": "RS256", "typ": "JWT"]
            if let keyID = account.keyID { header["kid"] = .string(keyID) }
            let claims: JSONObject = [
                "iss": .string(account.email), "scope": .string(scope),
                "aud": .string(audience.text), "iat": .int(time), "exp": .int(time + Self.lifetime),
            ]
            let text = [header, claims].map { Base64URL.encode(Data(JSONValue.object($0).encoded())) }.joined(
                separator: ".")
            // RS256 prescribes this padding (RFC 7518 §3.3).
            let signature = try account.key.signature(
                for: SHA256.hash(data: Data(text.utf8)), padding: .insecurePKCS1v1_5)
            return text + "." + Base64URL.encode(signature.rawRepresentation)
        }
    }
}
