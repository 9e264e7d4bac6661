import StalecastAccess
import StalecastWire
import Synchronization
import Testing

@Suite struct AuthorizerTests {
    private let clock = MovedClock()
    private let authorizer: Authorizer

    init() {
        authorizer = Authorizer(bootstrap: SecretDigest(of: "root"), clock: { [clock] in clock.now })
    }

    private func added(_ kind: APIKey.Kind = .secret, _ change: (inout AccessKey) -> Void = { _ in }) -> MadeKey {
        var made = MadeKey(kind)
        change(&made.key)
        authorizer.put(made.key)
        return made
    }

    // MARK: Carriers

    @Test func aKeyIsTakenFromEveryHeader() throws {
        let made = added()
        var (api, google) = (Presented(), Presented())
        api.apiKey = made.text
        google.googleKey = made.text
        for presented in [.bearer(made.text), api, google] {
            #expect(try authorizer.admit(presented, at: .edge).id == made.key.id)
        }
    }

    @Test(
        "only a bearer is a bearer",
        arguments: [
            "Basic dXNlcjpwYXNz", "Bearer", "Bearer ", "Bearer\tTOKEN", "bearer \tTOKEN", "TOKEN", "Bearer TOKEN x",
            "Bearer TOKEN ", "Bearer TOK\u{441}N", "",
        ]) func otherSchemes(header: String)
    {
        let made = added()
        var presented = Presented()
        presented.authorization = header.replacing("TOKEN", with: made.text)
        #expect(authorizer.denial(presented) == .malformed)
    }

    @Test func theSchemeIsInAnyCase() throws {
        let made = added()
        var presented = Presented()
        presented.authorization = "bEARER  \(made.text)"
        #expect(try authorizer.admit(presented, at: .edge).id == made.key.id)
    }

    @Test func twoDifferentCredentialsAreAmbiguous() {
        let (one, two) = (added(.publishable), added(.publishable))
        var presented = Presented.bearer(one.text)
        presented.queryKey = two.text
        #expect(authorizer.denial(presented) == .ambiguous)
        presented = Presented()
        (presented.googleKey, presented.queryKey) = (one.text, two.text)
        #expect(authorizer.denial(presented) == .ambiguous)
        presented = .bearer(one.text)
        presented.isRepeated = true
        #expect(authorizer.denial(presented) == .ambiguous)
    }

    @Test func oneCredentialTwiceIsOneAsFirebaseSendsIt() throws {
        let made = added(.publishable)
        var presented = Presented.query(made.text)
        presented.googleKey = made.text
        #expect(try authorizer.admit(presented, at: .edge).id == made.key.id)
    }

    @Test func aForeignGoogleKeyBesideACredentialMeansNothing() throws {
        let made = added()
        var presented = Presented.bearer(made.text)
        presented.googleKey = "AIzaSyA"
        #expect(try authorizer.admit(presented, at: .edge).id == made.key.id)
        presented.authorization = nil
        #expect(authorizer.denial(presented) == .unknown, "alone it is not anonymous")
    }

    @Test func aSecretKeyInAURLIsLeaked() {
        let (secret, publishable) = (added(.secret), added(.publishable))
        #expect(authorizer.denial(.query(secret.text)) == .leaked)
        #expect(authorizer.denial(.query(publishable.text)) == nil)
        #expect(authorizer.denial(.query("root"), at: .control) != nil)
    }

    // MARK: Who

    @Test func nobodyIsAnonymousAtEdgeAndMissingAtControl() throws {
        #expect(try authorizer.admit(Presented(), at: .edge).kind == .anonymous)
        #expect(authorizer.denial(Presented(), at: .control) == .missing)
    }

    @Test func theControlTokenIsForControlOnly() throws {
        #expect(try authorizer.admit(.bearer("root"), at: .control).kind == .bootstrap)
        #expect(authorizer.denial(.bearer("root"), at: .edge) == .unknown)
        authorizer.setBootstrap(SecretDigest(of: "other"))
        #expect(authorizer.denial(.bearer("root"), at: .control) == .unknown)
    }

    @Test func typosAndStrangersAreToldApartInTheLogOnly() {
        let made = added()
        let typo = String(made.text.dropLast()) + (made.text.last == "0" ? "1" : "0")
        #expect(authorizer.denial(.bearer(typo)) == .typo)
        #expect(authorizer.denial(.bearer(MadeKey().text)) == .unknown)
        #expect(Denial.typo.status == Denial.unknown.status)
    }

    @Test func aPublishableKeyWatchesAndFetchesAtMost() throws {
        var made = MadeKey(.publishable, [Grant(role: .operator)])
        made.key.name = "app"
        authorizer.put(made.key)
        let principal = try authorizer.admit(.bearer(made.text), at: .control)
        let scope = Scope(project: .demo, namespace: .firebase)
        #expect(AccessAction.allCases.filter { principal.may($0, in: scope) } == [.watch, .fetch])
    }

    @Test func aSecretOfAnotherIdOrKindIsUnknown() {
        var made = MadeKey(.secret)
        made.key = AccessKey(id: made.key.id, kind: .publishable, grants: made.key.grants, secrets: made.key.secrets)
        authorizer.put(made.key)
        #expect(authorizer.denial(.bearer(made.text)) == .unknown)
    }

    @Test func whatIsToldOfARefusalIsShortInBytes() throws {
        let marks = String(repeating: "\u{34F}", count: 9000)
        for (reason, words) in [(Denial.missing, marks), (.unknown, "a" + marks), (.revoked, "plain")] {
            authorizer.count(reason, at: .edge, isEnforced: true, Presented(), of: words)
        }
        let examples = authorizer.refusals.values.map(\.example)
        #expect(examples.count == 3 && examples.allSatisfy { $0.utf8.count < 250 })
    }

    @Test func aNumberOfAConfiguredKeyStandsForIt() throws {
        authorizer.configure(keys: [], plain: ["in-all-apps"], anonymous: [])
        let principal = try authorizer.admit(.bearer("in-all-apps"), at: .edge)
        let standing = try #require(authorizer.standing(of: principal.number))
        #expect(standing == principal && standing.number != 0)
    }

    // MARK: Time

    @Test func aKeyIsGoodFromItsBeginningUntilItsEnd() {
        let made = added {
            $0.notBefore = clock.now.advanced(by: .seconds(10))
            $0.expiresAt = clock.now.advanced(by: .seconds(20))
        }
        #expect(authorizer.denial(.bearer(made.text)) == .notYet)
        clock.advance(by: .seconds(10))
        #expect(authorizer.denial(.bearer(made.text)) == nil)
        clock.advance(by: .seconds(10))
        #expect(authorizer.denial(.bearer(made.text)) == .expired)
    }

    @Test func bothSecretsAreGoodDuringTheOverlap() throws {
        var made = added()
        let next = MadeKey()
        made.key.rotate(to: SecretDigest(of: next.text), at: clock.now)
        authorizer.put(made.key)
        #expect(authorizer.denial(.bearer(made.text)) == nil)
        clock.advance(by: .seconds(7 * 86_400))
        #expect(authorizer.denial(.bearer(made.text)) == .expired)
    }

    @Test func aThirdSecretEndsTheFirst() {
        var made = added()
        for _ in 0..<2 { made.key.rotate(to: MadeKey().key.secrets[0].digest, at: clock.now) }
        authorizer.put(made.key)
        #expect(made.key.secrets.count == 2)
        #expect(authorizer.denial(.bearer(made.text)) == .unknown)
    }

    @Test func revokingIsHeardAndEndsTheStanding() throws {
        var made = added()
        let number = try authorizer.admit(.bearer(made.text), at: .edge).number
        #expect(number > 0 && authorizer.standing(of: number)?.id == made.key.id)
        let heard = Mutex(0)
        authorizer.observe { heard.withLock { $0 += 1 } }
        made.key.revokedAt = clock.now
        authorizer.put(made.key)
        #expect(heard.withLock(\.self) == 1)
        #expect(authorizer.standing(of: number) == nil && authorizer.denial(.bearer(made.text)) == .revoked)
    }

    @Test func aKeyOfTheConfigurationGoesWithIt() throws {
        let made = MadeKey()
        authorizer.configure(keys: [made.key], plain: ["AIza-ours"], anonymous: [])
        let number = try authorizer.admit(.bearer(made.text), at: .edge).number
        var google = Presented()
        google.googleKey = "AIza-ours"
        let plain = try authorizer.admit(google, at: .edge)
        #expect(plain.number != number && authorizer.standing(of: plain.number) != nil)
        #expect(authorizer.denial(google, at: .control) == .unknown)
        authorizer.configure(keys: [], plain: [], anonymous: [])
        #expect(authorizer.standing(of: number) == nil && authorizer.standing(of: plain.number) == nil)
    }

    @Test func refusalsAreCountedWithAnExampleThatShowsNoSecret() {
        let made = added()
        authorizer.count(.expired, at: .edge, isEnforced: true, .bearer(made.text), of: "/v1/events")
        let (kind, refused) = authorizer.refusals.first!
        #expect(kind.reason == .expired && refused.count == 1)
        #expect(refused.example == "key \(made.key.id) at /v1/events")
        for path in ["/v1/poll", "/v1/state"] {
            authorizer.count(.expired, at: .edge, isEnforced: true, .bearer(made.text), of: path)
        }
        #expect(authorizer.refusals[kind]?.example == "key \(made.key.id) at /v1/poll", "the first since the last look")
    }
}
