import CryptoExtras
import Foundation
import StalecastOutbound
import StalecastTestServers
import StalecastWire
import Testing

@Suite struct AccessTokenTests {
    private static let key = Result { try _RSA.Signing.PrivateKey(keySize: .bits2048) }

    private static func account(tokenURL: String) throws -> ServiceAccount {
        let path = NSTemporaryDirectory() + "stalecast-account-\(UUID().uuidString).json"
        defer { try? FileManager.default.removeItem(atPath: path) }  // a leftover does no harm
        let file: JSONObject = [
            "type": "service_account", "project_id": "demo", "private_key_id": "k1",
            "private_key": .string(try key.get().pemRepresentation), "client_email": "me@demo.iam",
            "token_uri":
                .string(tokenURL),
        ]
        try Data(JSONValue.object(file).encoded()).write(to: URL(fileURLWithPath: path))
        return try ServiceAccount(contentsOf: path)
    }

    private static func part(_ jwt: String, _ index: Int) throws -> Data {
        let parts = jwt.split(separator: ".")
        let text = parts[index].replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        return try #require(Data(base64Encoded: text + String(repeating: "=", count: (4 - text.count % 4) % 4)))
    }

    private static func token(_ name: String, lifetime: Int = 3599) -> OriginServer.Reply {
        .json(#"{"access_token":"\#(name)","expires_in":\#(lifetime),"token_type":"Bearer"}"#)
    }

    @Test func theAssertionIsSignedByTheKeyAndGoodForItsReceiverAlone() async throws {
        try await OriginServer.serving({ _ in Self.token("t1") }) { server in
            try await EngineFixture.running { fixture in
                let tokens = AccessTokens(
                    account: try Self.account(tokenURL: server.url), scope: "a b", engine: fixture.engine,
                    policy: fixture.policy)
                #expect(tokens.current == nil)
                #expect(try await tokens.token() == "t1")
                #expect(tokens.current == "t1")
            }
            let body = try #require(server.requests.first?.body)
            #expect(body.hasPrefix("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="))
            let jwt = try #require(body.components(separatedBy: "assertion=").last)
            let header = try JSONValue.parse(try Self.part(jwt, 0))
            #expect(header == ["alg": "RS256", "typ": "JWT", "kid": "k1"])
            guard case .object(let claims) = try JSONValue.parse(try Self.part(jwt, 1)) else { return }
            #expect(claims["iss"] == "me@demo.iam" && claims["scope"] == "a b")
            // What is sent to another server than Google's must be of no use at Google's.
            #expect(claims["aud"] == .string(try OutboundURL(server.url).text))
            let signed = Data(jwt.split(separator: ".").prefix(2).joined(separator: ".").utf8)
            let signature = _RSA.Signing.RSASignature(rawRepresentation: try Self.part(jwt, 2))
            #expect(
                try Self.key.get().publicKey.isValidSignature(signature, for: signed, padding: .insecurePKCS1v1_5))
        }
    }

    @Test func oneRequestServesEverybodyWhoWaits() async throws {
        try await OriginServer.serving({ _ in Self.token("t") }) { server in
            try await EngineFixture.running { fixture in
                let tokens = AccessTokens(
                    account: try Self.account(tokenURL: server.url), scope: "s", engine: fixture.engine,
                    policy: fixture.policy)
                try await withThrowingTaskGroup(of: String.self) { group in
                    for _ in 0..<20 { group.addTask { try await tokens.token() } }
                    for try await token in group { #expect(token == "t") }
                }
                #expect(server.requests.count == 1)
                tokens.invalidate()
                #expect(tokens.current == nil)
                _ = try await tokens.token()
                #expect(server.requests.count == 2)
            }
        }
    }

    @Test func aRefusalSaysWhatTheServerSaid() async throws {
        let reply = OriginServer.Reply.status(
            400, [], #"{"error":"invalid_grant","error_description":"Invalid JWT Signature."}"#)
        try await OriginServer.serving({ _ in reply }) { server in
            try await EngineFixture.running { fixture in
                let tokens = AccessTokens(
                    account: try Self.account(tokenURL: server.url), scope: "s", engine: fixture.engine,
                    policy: fixture.policy)
                let error = await #expect(throws: AccessTokens.Failure.self) { try await tokens.token() }
                #expect(error?.description.contains("invalid_grant: Invalid JWT Signature.") == true)
                #expect(error?.isRefusal == true)
                #expect(server.requests.count == 1)
            }
        }
    }

    /// The endpoint's clock is a year ahead of ours: the assertion is made again by its clock.
    @Test func aWrongClockIsCorrectedByTheEndpoints() async throws {
        let year: Int64 = 365 * 86400
        let ahead = Int64(Date().timeIntervalSince1970) + year
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(identifier: "GMT")
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        let date = formatter.string(from: Date(timeIntervalSince1970: TimeInterval(ahead)))
        try await OriginServer.serving({ request in
            let jwt = request.body.components(separatedBy: "assertion=").last ?? ""
            guard let claims = try? JSONValue.parse(Self.part(jwt, 1)), case .object(let members) = claims,
                case .number(let issued)? = members["iat"], let seconds = Int64(issued), seconds > ahead - 60
            else { return .status(400, ["Date: \(date)"], #"{"error":"invalid_grant"}"#) }
            return Self.token("late")
        }) { server in
            try await EngineFixture.running { fixture in
                let tokens = AccessTokens(
                    account: try Self.account(tokenURL: server.url), scope: "s", engine: fixture.engine,
                    policy: fixture.policy)
                #expect(try await tokens.token() == "late")
                #expect(server.requests.count == 2)
            }
        }
    }

    @Test(arguments: [
        "", "[]", "{}", #"{"type":"authorized_user","client_email":"a","private_key":"b"}"#,
        #"{"client_email":"a","private_key":"-----BEGIN SECRET-----"}"#,
    ])
    func aFileThatIsNoKeyIsRefusedWithoutQuotingIt(text: String) throws {
        let path = NSTemporaryDirectory() + "stalecast-bad-\(UUID().uuidString).json"
        defer { try? FileManager.default.removeItem(atPath: path) }  // a leftover does no harm
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        let error = #expect(throws: ServiceAccount.Invalid.self) { try ServiceAccount(contentsOf: path) }
        #expect(error?.description.contains(path) == true)
        #expect(error?.description.contains("SECRET") == false)
        #expect(throws: ServiceAccount.Invalid.self) { try ServiceAccount(contentsOf: path + ".missing") }
    }
}
