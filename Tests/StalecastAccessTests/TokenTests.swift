import Crypto
import Foundation
import StalecastAccess
import StalecastWire
import Testing

/// An issuer with one key, and tokens of it.
struct MadeIssuer {
    var issuer: TokenIssuer
    let key = P256.Signing.PrivateKey()
    let id: String

    init(_ id: String = "k1", file: String = "/keys", claims: Bool = true) {
        self.id = id
        issuer = TokenIssuer(
            name: "test", issuer: "https://i", audiences: ["a"], algorithms: [.es256], keys: .init(file))
        issuer.grantsInTokens = claims
    }

    var jwk: JSONValue {
        let point = [UInt8](key.publicKey.x963Representation)
        return [
            "kty": "EC", "crv": "P-256", "kid": .string(id), "x": .string(base64url(point[1..<33])),
            "y": .string(base64url(point[33...])),
        ]
    }

    func set() throws -> KeySet { try KeySet(keySet([jwk]), for: [.es256]) }

    func token(_ change: JSONObject = [:], at now: Timestamp, life: Int64 = 600) throws -> String {
        let seconds = now.microseconds / 1_000_000
        var claims: JSONObject = [
            "iss": "https://i", "aud": "a", "sub": "s", "iat": .int(seconds), "exp": .int(seconds + life),
            "stalecast": [["actions": ["watch"]]],
        ]
        for (name, value) in change.members { claims[name] = value }
        let header: JSONValue = ["alg": "ES256", "kid": .string(id)]
        let text = [header, .object(claims)].map { base64url($0.encoded()) }.joined(separator: ".")
        return try "\(text).\(base64url([UInt8](key.signature(for: Data(text.utf8)).rawRepresentation)))"
    }
}

func base64url(_ bytes: some Sequence<UInt8>) -> String {
    Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
}

func keySet(_ keys: [JSONValue]) -> [UInt8] { JSONValue.object(["keys": .array(keys)]).encoded() }

@Suite struct TokenTests {
    private let clock = MovedClock()
    private let authorizer: Authorizer
    private let made = MadeIssuer(file: "https://keys")

    init() throws {
        authorizer = Authorizer(clock: { [clock] in clock.now })
        authorizer.configure(keys: [], plain: [], anonymous: [], issuers: [made.issuer])
    }

    private func fetched(_ keys: KeySet, age: Duration? = nil) throws {
        #expect(authorizer.tokens.due() == [made.issuer])
        authorizer.fetched(keys, age: age, of: made.issuer)
    }

    /// Verifies where it is asked, as Control does.
    private func denial(_ token: String) -> Denial? { authorizer.denial(.bearer(token), at: .control) }

    @Test func withoutKeysItIsNotNow() throws {
        #expect(denial(try made.token(at: clock.now)) == .notReady)
        let atEdge = try authorizer.authenticate(.bearer(try made.token(at: clock.now)), at: .edge)
        #expect(atEdge == .unverified, "Edge has it verified")
    }

    @Test func aTokenIsKnownUntilItExpires() throws {
        try fetched(made.set())
        let token = try made.token(at: clock.now)
        let principal = try authorizer.admit(.bearer(token), at: .control)
        #expect(principal.kind == .token && principal.id == "s" && principal.issuer == "test")
        #expect(try authorizer.admit(.bearer(token), at: .edge) == principal, "known at both listeners")
        #expect(authorizer.currentPrincipal(of: principal.number) == principal)
        clock.advance(by: .seconds(599))
        #expect(try authorizer.admit(.bearer(token), at: .edge) == principal)
        clock.advance(by: .seconds(1))
        #expect(authorizer.currentPrincipal(of: principal.number) == nil)
        #expect(denial(token) == .expired)
    }

    @Test func aClockThatIsAnHourOffIsSeen() throws {
        try fetched(made.set())
        let now = clock.now
        #expect(denial(try made.token(at: now.advanced(by: .seconds(3600)))) == .notYet)
        #expect(denial(try made.token(at: now.advanced(by: .seconds(-3600)))) == .expired)
        #expect(denial(try made.token(at: now.advanced(by: .seconds(30)))) == nil, "within the leeway")
    }

    @Test func keysAreKeptForADayOfOutage() throws {
        try fetched(made.set())
        for _ in 0..<23 {
            clock.advance(by: .seconds(3600))
            #expect(authorizer.tokens.due() == [made.issuer])
            authorizer.failed("no", of: made.issuer)
            #expect(denial(try made.token(at: clock.now)) == nil)
        }
        clock.advance(by: .seconds(3600))
        let reports = authorizer.tokens.reports
        #expect(reports.map(\.keys) == [0])
        #expect(denial(try made.token(["sub": "t"], at: clock.now)) == .notReady)
    }

    @Test func aSetIsAskedForAgainWhenItsServerSays() throws {
        for (age, due) in [(nil, 600), (5, 60), (3600, 3600), (1_000_000, 86_400)] as [(Int64?, Int64)] {
            let clock = MovedClock()
            let authorizer = Authorizer(clock: { clock.now })
            authorizer.configure(keys: [], plain: [], anonymous: [], issuers: [made.issuer])
            #expect(authorizer.tokens.due().count == 1)
            #expect(authorizer.tokens.due().isEmpty, "one at a time")
            authorizer.fetched(try made.set(), age: age.map { .seconds($0) }, of: made.issuer)
            clock.advance(by: .seconds(due - 1))
            #expect(authorizer.tokens.due().isEmpty)
            clock.advance(by: .seconds(1))
            #expect(authorizer.tokens.due().count == 1)
        }
    }

    @Test func unknownKeysAskOnceInHalfAMinute() throws {
        try fetched(made.set())
        clock.advance(by: .seconds(31))
        var asked = 0
        for second in 0..<120 {
            for number in 0..<10 {
                let other = try MadeIssuer("other\(second).\(number)").token(at: clock.now)
                #expect([.notReady, .unknownKey].contains(denial(other)))
                if !authorizer.tokens.due().isEmpty {
                    asked += 1
                    authorizer.fetched(try made.set(), of: made.issuer)
                }
            }
            clock.advance(by: .seconds(1))
        }
        #expect(asked == 4)
    }

    @Test func aNewKeyIsFoundAfterThePollItCauses() throws {
        try fetched(made.set())
        clock.advance(by: .seconds(60))
        let next = MadeIssuer("k2")
        let token = try next.token(at: clock.now)
        #expect(denial(token) == .notReady)
        #expect(authorizer.tokens.due().count == 1)
        authorizer.fetched(try KeySet(keySet([made.jwk, next.jwk]), for: [.es256]), of: made.issuer)
        #expect(denial(token) == nil)
    }

    @Test func whoLosesTheKeyIsGone() throws {
        try fetched(made.set())
        let principal = try authorizer.admit(.bearer(try made.token(at: clock.now)), at: .control)
        clock.advance(by: .seconds(600))
        try fetched(made.set())
        let again = try authorizer.admit(.bearer(try made.token(at: clock.now)), at: .control)
        #expect(principal.number != again.number)
        clock.advance(by: .seconds(600 - 1))
        authorizer.fetched(try MadeIssuer("k2").set(), of: made.issuer)
        #expect(authorizer.currentPrincipal(of: again.number) == nil)
    }

    @Test func theSameKeyUnderItsNameStays() throws {
        try fetched(made.set())
        let principal = try authorizer.admit(.bearer(try made.token(at: clock.now)), at: .control)
        authorizer.configure(keys: [], plain: [], anonymous: [], issuers: [made.issuer])
        #expect(authorizer.currentPrincipal(of: principal.number) != nil, "a reload without a change")
        var changed = made.issuer
        changed.audiences = ["b"]
        authorizer.configure(keys: [], plain: [], anonymous: [], issuers: [changed])
        #expect(authorizer.currentPrincipal(of: principal.number) == nil)
        authorizer.configure(keys: [], plain: [], anonymous: [])
        #expect(authorizer.denial(.bearer("a.b.c")) == .unknownIssuer, "no issuer is configured")
    }

    @Test func aTokenInAURLIsLeaked() throws {
        try fetched(made.set())
        #expect(authorizer.denial(.query(try made.token(at: clock.now))) == .leaked)
    }

    @Test func theOutcomeOfAVerificationIsTheAnswer() throws {
        var credentials = Credentials.bearer(try made.token(at: clock.now))
        credentials.verification = .refused(.badSignature)
        #expect(authorizer.denial(credentials) == .badSignature)
        credentials.verification = .good
        #expect(authorizer.denial(credentials) == .notReady, "forgotten since")
    }

    @Test func longTokensAndManyGrantsAreNone() throws {
        try fetched(made.set())
        #expect(
            denial(try made.token(["pad": .string(String(repeating: "x", count: 9000))], at: clock.now)) == .malformed)
        let grants = JSONValue.array(Array(repeating: ["actions": ["watch"]], count: 33))
        #expect(denial(try made.token(["stalecast": grants], at: clock.now)) == .badClaims)
        #expect(denial(try made.token(at: clock.now, life: 86_401)) == .tooLong)
        #expect(denial(try made.token(at: clock.now, life: 86_400)) == nil)
    }

    @Test func rulesGrantByClaims() throws {
        var made = MadeIssuer(claims: false)
        let production = Grant(role: .publisher, projects: [Glob("shop")])
        made.issuer.rules = [
            .init(when: ["repository_id": Glob("42"), "environment": Glob("prod*")], grant: production),
            .init(when: ["groups": Glob("staff")], grant: Grant(role: .viewer)),
        ]
        let keys = try made.set()
        func grants(_ claims: JSONObject) throws -> [Grant] {
            let token = try SignedToken(try made.token(claims, at: clock.now))
            return try made.issuer.verify(token, with: keys, at: clock.now).identity.grants
        }
        #expect(try grants(["repository_id": 42, "environment": "production"]) == [production])
        #expect(try grants(["repository_id": "42", "environment": "test"]) == [])
        #expect(try grants(["repository_id": "42"]) == [])
        #expect(try grants(["repository_id": ["42"], "environment": ["x", "prod"]]) == [production])
        #expect(try grants(["groups": ["guests", "staff"]]) == [Grant(role: .viewer)])
        #expect(try grants(["groups": ["guests"]]) == [], "what the token says of itself is not asked")
    }

    @Test func theCacheForgetsTheOldestAndNumbersAreNotUsedAgain() throws {
        try fetched(made.set())
        let first = try authorizer.admit(.bearer(try made.token(["sub": "first"], at: clock.now)), at: .control)
        let second = try authorizer.admit(.bearer(try made.token(["sub": "second"], at: clock.now)), at: .control)
        #expect(second.number == first.number + 1)
        clock.advance(by: .seconds(601))
        let later = try authorizer.admit(.bearer(try made.token(["sub": "first"], at: clock.now)), at: .control)
        #expect(later.number > second.number)
        #expect(authorizer.currentPrincipal(of: first.number) == nil)
    }

    @Test func aNewRuleKeepsTheKeysAndAnIssuerIsStillAskedWhenDue() throws {
        try fetched(made.set(), age: .seconds(600))
        var changed = made.issuer
        changed.rules = [TokenIssuer.Rule(when: ["sub": Glob("ops")], grant: Grant(role: .viewer))]
        authorizer.configure(keys: [], plain: [], anonymous: [], issuers: [changed])
        #expect(denial(try made.token(at: clock.now)) == nil)
        #expect(authorizer.tokens.due().isEmpty)
        clock.advance(by: .seconds(601))
        #expect(authorizer.tokens.due() == [changed])
        // It may be asked again under the next configuration, while this answer is on its way.
        authorizer.configure(keys: [], plain: [], anonymous: [], issuers: [made.issuer])
        clock.advance(by: .seconds(1))
        #expect(authorizer.tokens.due() == [made.issuer])
        #expect(denial(try made.token(at: clock.now)) == nil)
    }

    @Test func base64urlHasOneSpelling() {
        for (text, bytes) in [("", []), ("AA", [0]), ("AAA", [0, 0]), ("_-8", [255, 239])] as [(String, [UInt8])] {
            #expect(Base64URL.decode(text.utf8) == bytes)
        }
        for text in ["A", "AB", "AAB", "AA=", "A A", "+/8", "AAAAA", "A\n"] {
            #expect(Base64URL.decode(text.utf8) == nil, "\(text)")
        }
    }

    private func verify(_ token: String, weight: Int = 0) async -> Denial? {
        await withCheckedContinuation { done in
            authorizer.tokens.verify(token, weight: weight) { done.resume(returning: $0) }
        }
    }

    /// Both may open a stream with what they found.
    @Test func whatIsVerifiedTwiceAtOnceIsOnePrincipal() async throws {
        try fetched(made.set())
        let token = try made.token(at: clock.now)
        #expect(await verify(token) == nil)
        let first = try authorizer.admit(.bearer(token), at: .edge)
        #expect(await verify(token) == nil)
        #expect(try authorizer.admit(.bearer(token), at: .edge) == first)
        #expect(authorizer.currentPrincipal(of: first.number) == first)
    }

    private func isUnknown(_ token: String) -> Bool { authorizer.unknownToken(in: .bearer(token)) != nil }

    @Test func aRefusedTokenIsNotVerifiedAgainSoon() async throws {
        let forged = try MadeIssuer().token(at: clock.now)
        #expect(await verify(forged) == .notReady && isUnknown(forged), "no keys, no verification")
        try fetched(made.set())
        #expect(await verify(forged) == .badSignature)
        #expect(!isUnknown(forged) && authorizer.denial(.bearer(forged)) == .badSignature)
        clock.advance(by: .seconds(60))
        #expect(isUnknown(forged), "a minute is over")
        #expect(await verify(forged) == .badSignature && !isUnknown(forged))
        authorizer.fetched(try made.set(), of: made.issuer)
        #expect(isUnknown(forged), "with other keys it may be good")
        #expect(await verify(forged) == .badSignature)
        var second = MadeIssuer(file: "https://others").issuer
        (second.issuer, second.name) = ("https://other", "other")
        authorizer.configure(keys: [], plain: [], anonymous: [], issuers: [made.issuer, second])
        #expect(await verify(forged) == .badSignature && isUnknown(forged), "the keys of one issuer are missing")
    }

    @Test func whatTimeCanMendIsNotKept() async throws {
        try fetched(made.set())
        for (changes, denial) in [
            (["exp": .int(clock.now.microseconds / 1_000_000 + 90_000)], .tooLong),
            (["nbf": .int(clock.now.microseconds / 1_000_000 + 40)], .notYet),
        ] as [(JSONObject, Denial)] {
            let token = try made.token(changes, at: clock.now)
            #expect(await verify(token) == denial && isUnknown(token))
        }
    }

    @Test func theRefusedAreForgottenOldestFirst() {
        var refused = RefusedTokens()
        func digest(_ number: Int) -> SecretDigest { SecretDigest(of: String(number)) }
        for number in 0...RefusedTokens.capacity {
            refused.insert(.badSignature, of: digest(number), at: clock.now, in: refused.turn)
        }
        #expect(refused.denial(of: digest(0), at: clock.now) == nil)
        #expect(refused.denial(of: digest(1), at: clock.now) == .badSignature)
        #expect(refused.denial(of: digest(RefusedTokens.capacity), at: clock.now) == .badSignature)
        refused.removeAll()
        refused.insert(.badSignature, of: digest(1), at: clock.now, in: 0)
        #expect(refused.denial(of: digest(1), at: clock.now) == nil, "it was decided with keys of before")
    }

    /// Sends as many tokens at once as come after a restart.
    @Test func manyThatComeAtOnceAllGetTheirTurn() async throws {
        try fetched(made.set())
        let tokens = try (0..<3000).map { try made.token(["sub": .string("user-\($0)")], at: clock.now) }
        let denials = await withTaskGroup(of: Denial?.self) { group in
            for token in tokens { group.addTask { await verify(token) } }
            return await group.reduce(into: [Denial?]()) { $0.append($1) }
        }
        #expect(denials.count == 3000 && denials.allSatisfy { $0 == nil })
        #expect(authorizer.tokens.counts.verified == 3000)
    }

    @Test func aFullQueueSaysNotNow() async throws {
        try fetched(made.set())
        let token = try made.token(at: clock.now)
        #expect(await verify(token, weight: 32 << 20) == .notReady)
        #expect(await verify(token, weight: 31 << 20) == nil)
        #expect(await verify(token) == nil && authorizer.tokens.counts.verified == 1, "it is known")
    }
}
