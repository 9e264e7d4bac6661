package import StalecastOutbound
import StalecastWire

/// Settings that all HTTP requests to an origin have in common.
package struct OriginAccess: Sendable {
    package var engine: OutboundEngine
    /// Rule for the addresses that may be dialled; loopback only when it is allowed by name.
    package var policy: AddressPolicy
    package var tls: OutboundTLS?
    package var limits: OutboundLimits
    package var credential: Credential
    /// Sent with every request.
    package var headers: [OutboundHeader]

    package init(
        engine: OutboundEngine, policy: AddressPolicy, tls: OutboundTLS? = nil, timeout: Duration = .seconds(15),
        maxBodyBytes: Int, credential: Credential = .none, headers: [OutboundHeader] = []
    ) {
        (self.engine, self.policy, self.tls) = (engine, policy, tls)
        limits = OutboundLimits(
            connectTimeout: min(.seconds(5), timeout), timeout: timeout, maxBodyBytes: maxBodyBytes, overflow: .fail)
        self.credential = credential
        self.headers = headers
    }

    /// Credential that is shown to an origin as `Authorization: Bearer …`.
    package enum Credential: Sendable {
        case none
        case file(BearerFile)
        /// A service account's: `token` has one that is good, perhaps after asking for it; `refused` hears when it was not.
        case account(token: @Sendable () async throws -> String, refused: @Sendable () async -> Void)
    }

    /// An answer that came whole.
    package struct Answer: Sendable {
        package let status: Int
        /// Header fields by lower-case name: those in ``OriginAccess/kept``.
        package let headers: [String: String]
        package let body: [UInt8]
    }
}

extension OriginAccess {
    private static let kept: Set<String> = ["etag", "last-modified", "content-type", "retry-after", "date", "location"]

    /// Sends a request and returns what came, 2xx and 304 alike. A 401 is answered once with a fresh token.
    ///
    /// - Throws: ``OriginProblem`` for everything else.
    package func answer(
        _ method: String = "GET", _ url: OutboundURL, headers: [OutboundHeader] = [], body: [UInt8]? = nil
    ) async throws(OriginProblem) -> OriginAccess.Answer {
        let token = try await token()
        var answer = try await send(method, url, headers, body, token)
        if answer.status == 401, let fresh = try await freshToken(after: token) {
            answer = try await send(method, url, headers, body, fresh)
        }
        guard (200..<300).contains(answer.status) || answer.status == 304 else { throw refusal(answer, url) }
        return answer
    }

    private func send(
        _ method: String, _ url: OutboundURL, _ headers: [OutboundHeader], _ body: [UInt8]?, _ token: String?
    ) async throws(OriginProblem) -> OriginAccess.Answer {
        var all = self.headers + headers
        if let token { all.append(OutboundHeader(trusted: "Authorization", "Bearer \(token)")) }
        let outcome = await engine.send(
            OutboundRequest(
                method: method, url: url, headers: all, body: body, limits: limits, policy: policy, tls: tls,
                keptHeaders: Self.kept))
        switch outcome.result {
        case .answered(let status, let headers, let body, _):
            return OriginAccess.Answer(status: status, headers: headers, body: body)
        case .failed(let failure): throw OriginProblem(failure, host: url.host)
        }
    }

    // MARK: Tokens

    private func token() async throws(OriginProblem) -> String? {
        switch credential {
        case .none: return nil
        case .file(let file):
            do { return try file.token() } catch { throw OriginProblem(.unauthorized, error.description) }
        case .account(let token, _):
            do { return try await token() } catch { throw OriginProblem(.unauthorized, "\(error)") }
        }
    }

    /// - Returns: nil when there is no other token than the one that was refused.
    private func freshToken(after refused: String?) async throws(OriginProblem) -> String? {
        switch credential {
        case .none: return nil
        case .file(let file): file.forget()
        case .account(_, let refused): await refused()
        }
        let fresh = try await token()
        return fresh == refused ? nil : fresh
    }

    // MARK: Refusals

    private func refusal(_ answer: OriginAccess.Answer, _ url: OutboundURL) -> OriginProblem {
        let host = url.host
        let wait = RetryAfter.delay(answer.headers["retry-after"], date: answer.headers["date"], now: .now())
        switch answer.status {
        case 300..<400:
            // Its query may hold secrets, and may be another one each time.
            let place = answer.headers["location"]?.prefix { $0 != "?" && $0 != "#" }
            let target = place.map { " to \($0.prefix(200))" } ?? ""
            return OriginProblem(
                .redirect,
                "\(host) redirects (\(answer.status))\(target); redirects are not followed: set the source's "
                    + "url to the final address")
        case 401, 403:
            return OriginProblem(
                .unauthorized, "\(host) answers \(answer.status): the source's credentials are missing or refused")
        case 404, 410: return OriginProblem(.notFound, "\(host) answers \(answer.status): there is nothing at the url")
        case 429:
            return OriginProblem(.throttled, "\(host) answers 429: it is asked too often", retryAfter: wait)
        case 503: return OriginProblem(.throttled, "\(host) answers 503: it is not available", retryAfter: wait)
        case 500...: return OriginProblem(.serverError, "\(host) answers \(answer.status)", retryAfter: wait)
        default: return OriginProblem(.unexpectedStatus, "\(host) answers \(answer.status)", retryAfter: wait)
        }
    }
}
