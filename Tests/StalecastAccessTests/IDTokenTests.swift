import StalecastAccess
import StalecastWire
import Testing

/// Sign-ins to the console: what of an ID token is asked for, and how long it counts.
@Suite struct IDTokenTests {
    private let clock = MovedClock()
    private let authorizer: Authorizer
    private var made = MadeIssuer(file: "https://keys")

    init() throws {
        made.issuer.signIn = TokenIssuer.SignIn(clientID: "console")
        authorizer = Authorizer(clock: { [clock] in clock.now })
        authorizer.configure(keys: [], plain: [], anonymous: [], issuers: [made.issuer])
        authorizer.fetched(try made.set(), of: made.issuer)
    }

    private func text(_ change: JSONObject = [:], life: Int64 = 300) throws -> String {
        var claims: JSONObject = ["aud": "console", "nonce": "n"]
        for (name, value) in change.members { claims[name] = value }
        return try made.token(claims, at: clock.now, life: life)
    }

    private func signedIn(_ text: String, nonce: String = "n") -> Credentials {
        var credentials = Credentials()
        credentials.verification = .signedIn(IDToken(text, of: made.issuer, nonce: nonce, at: clock.now))
        return credentials
    }

    private func denial(_ change: JSONObject) throws -> Denial? {
        authorizer.denial(signedIn(try text(change)), at: .control)
    }

    @Test func aShortTokenIsGoodForAnHourAndALongOneToItsEnd() throws {
        for (life, seconds) in [(300, 3600), (7200, 7200)] as [(Int64, Int64)] {
            let credentials = signedIn(try text(life: life))
            let principal = try authorizer.admit(credentials, at: .control)
            #expect(principal.id == "s" && principal.issuer == "test")
            clock.advance(by: .seconds(seconds - 1))
            #expect(try authorizer.admit(credentials, at: .control) == principal)
            // Forgotten and verified anew, long after the token's own end.
            authorizer.configure(keys: [], plain: [], anonymous: [])
            authorizer.configure(keys: [], plain: [], anonymous: [], issuers: [made.issuer])
            authorizer.fetched(try made.set(), of: made.issuer)
            #expect(authorizer.denial(credentials, at: .control) == nil)
            clock.advance(by: .seconds(1))
            #expect(authorizer.denial(credentials, at: .control) == .expired)
        }
    }

    @Test func whatIsForAnotherSignInIsRefused() throws {
        #expect(try denial([:]) == nil)
        #expect(try denial(["nonce": "m"]) == .badClaims)
        #expect(try denial(["nonce": .null]) == .badClaims)
        #expect(try denial(["aud": "a"]) == .wrongAudience, "that is of bearer tokens")
        #expect(try denial(["azp": "other"]) == .wrongAudience)
        #expect(try denial(["aud": ["console", "b"]]) == .wrongAudience, "several need azp")
        #expect(try denial(["aud": ["console", "b"], "azp": "console"]) == nil)
        #expect(try denial(["iss": "https://other"]) == .unknownIssuer)
    }

    @Test func itIsNoBearerTokenAndNothingAtEdge() throws {
        let text = try text()
        let credentials = signedIn(text)
        _ = try authorizer.admit(credentials, at: .control)
        #expect(authorizer.denial(.bearer(text), at: .control) == .wrongAudience)
        #expect(authorizer.denial(credentials, at: .edge) == .malformed)
    }

    @Test func itEndsWithTheKeyAndWithTheClient() throws {
        let credentials = signedIn(try text())
        _ = try authorizer.admit(credentials, at: .control)
        authorizer.fetched(try MadeIssuer("k2").set(), of: made.issuer)
        #expect(authorizer.denial(credentials, at: .control) == .notReady, "the key may come back")
        authorizer.fetched(try made.set(), of: made.issuer)
        var without = made.issuer
        without.signIn = nil
        authorizer.configure(keys: [], plain: [], anonymous: [], issuers: [without])
        #expect(authorizer.denial(credentials, at: .control) == .unknownIssuer)
        #expect(authorizer.tokens.signInIssuers.isEmpty)
    }
}
