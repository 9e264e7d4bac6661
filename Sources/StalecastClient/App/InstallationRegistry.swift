import Foundation
import StalecastWire

/// Registers an installation with Firebase and keeps its token fresh.
struct InstallationRegistry: Sendable {
    let options: StalecastOptions
    /// Firebase's host of installations.
    let host: URL

    /// Tokens that end sooner than this, in seconds, are renewed (JS SDK).
    static let renewBefore: TimeInterval = 3600

    /// An installation with a token that is good for a while: the one given, renewed, or a new registration.
    ///
    /// - Parameter timeout: seconds one request may take.
    func valid(_ installation: Installation, now: Date, timeout: TimeInterval) async throws -> Installation {
        guard let token = installation.token else { return try await registered(installation, now, timeout) }
        if token.expires.timeIntervalSince(now) > Self.renewBefore { return installation }
        return try await renewed(installation, token, now, timeout)
    }

    private func registered(
        _ installation: Installation, _ now: Date, _ timeout: TimeInterval
    ) async throws -> Installation {
        let body: JSONObject = [
            "fid": .string(installation.id), "authVersion": "FIS_v2", "appId": .string(options.appID),
            "sdkVersion": .string("i:" + SDKVersion.text),
        ]
        let (status, answer) = try await post("installations", body, authorization: nil, timeout)
        guard status == 200, let refresh = answer["refreshToken"]?.string, let grant = answer["authToken"] else {
            throw FetchAnswer.Failure(envelope: answer["error"] ?? .null, status: status)
        }
        var installation = installation
        // The server may insist on another id, which the client adopts.
        installation.id = answer["fid"]?.string ?? installation.id
        installation.token = try Self.token(grant, refresh, now)
        return installation
    }

    private func renewed(
        _ installation: Installation, _ token: Installation.Token, _ now: Date, _ timeout: TimeInterval
    ) async throws -> Installation {
        let body: JSONObject = [
            "installation": ["sdkVersion": .string("i:" + SDKVersion.text), "appId": .string(options.appID)]
        ]
        let path = "installations/\(installation.id)/authTokens:generate"
        let (status, grant) = try await post(path, body, authorization: "FIS_v2 " + token.refreshToken, timeout)
        // The server no longer knows the installation: make a new one (JS SDK).
        if status == 401 || status == 404 {
            var fresh = installation
            fresh.id = Installation.newID()
            return try await registered(fresh, now, timeout)
        }
        guard status == 200 else { throw FetchAnswer.Failure(envelope: grant["error"] ?? .null, status: status) }
        var installation = installation
        installation.token = try Self.token(grant, token.refreshToken, now)
        return installation
    }

    private func post(
        _ path: String, _ body: JSONObject, authorization: String?, _ timeout: TimeInterval
    ) async throws -> (Int, JSONValue) {
        var headers = ["Content-Type": "application/json", "Accept": "application/json"]
        headers["x-goog-api-key"] = options.apiKey
        headers["Authorization"] = authorization
        #if canImport(Darwin)
            headers["X-Ios-Bundle-Identifier"] = Bundle.main.bundleIdentifier
        #endif
        let url = host.appendingPathComponent("v1/projects/\(options.project)/\(path)")
        var request = TransportRequest(
            url: url, headers: headers, body: Data(JSONValue.object(body).encoded()), timeout: timeout)
        request.authorityFile = options.authorityFile
        let response = try await options.transport.send(request)
        // A body that is no JSON has nothing to say beyond its status.
        return (response.status, JSONValue.ifValid(response.body) ?? .null)
    }

    private static func token(_ grant: JSONValue, _ refresh: String, _ now: Date) throws -> Installation.Token {
        guard let text = grant["token"]?.string, let life = grant["expiresIn"]?.string, life.hasSuffix("s"),
            let seconds = TimeInterval(life.dropLast())
        else { throw FetchAnswer.Failure.unreadable("the installation service answered without a token") }
        return Installation.Token(text: text, refreshToken: refresh, expires: now.addingTimeInterval(seconds))
    }
}
