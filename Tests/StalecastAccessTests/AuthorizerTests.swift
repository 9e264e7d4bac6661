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
        var (api, google) = (Credentials(), Credentials())
        api.apiKey = made.text
        google.googleKey = made.text
        for credentials in [.bearer(made.text), api, google] {
            #expect(try authorizer.admit(credentials, at: .edge).id == made.key.id)
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
        var credentials = Credentials()
        credentials.authorization = header.replacing("TOKEN", with: made.text)
        #expect(authorizer.denial(credentials) == .malformed)
    }

    @Test func theSchemeIsInAnyCase() throws {
        let made = added()
        var credentials = Credentials()
        credentials.authorization = "bEARER  \(made.text)"
        #expect(try authorizer.admit(credentials, at: .edge).id == made.key.id)
    }

    @Test func twoDifferentCredentialsAreAmbiguous() {
        let (one, two) = (added(.publishable), added(.publishable))
        var credentials = Credentials.bearer(one.text)
        credentials.queryKey = two.text
        #expect(authorizer.denial(credentials) == .ambiguous)
        credentials = Credentials()
        (credentials.googleKey, credentials.queryKey) = (one.text, two.text)
        #expect(authorizer.denial(credentials) == .ambiguous)
        credentials = .bearer(one.text)
        credentials.isRepeated = true
        #expect(authorizer.denial(credentials) == .ambiguous)
    }

    @Test func oneCredentialTwiceIsOneAsFirebaseSendsIt() throws {
        let made = added(.publishable)
        var credentials = Credentials.query(made.text)
        credentials.googleKey = made.text
        #expect(try authorizer.admit(credentials, at: .edge).id == made.key.id)
    }

    @Test func aForeignGoogleKeyBesideACredentialMeansNothing() throws {
        let made = added()
        var credentials = Credentials.bearer(made.text)
        credentials.googleKey = "AIzaSyA"
        #expect(try authorizer.admit(credentials, at: .edge).id == made.key.id)
        credentials.authorization = nil
        #expect(authorizer.denial(credentials) == .unknown, "alone it is not anonymous")
    }

    @Test func aSecretKeyInAURLIsLeaked() {
        let (secret, publishable) = (added(.secret), added(.publishable))
        #expect(authorizer.denial(.query(secret.text)) == .leaked)
        #expect(authorizer.denial(.query(publishable.text)) == nil)
        #expect(authorizer.denial(.query("root"), at: .control) != nil)
    }

    // MARK: Who

    @Test func noCredentialIsAnonymousAtEdgeAndMissingAtControl() throws {
        #expect(try authorizer.admit(Credentials(), at: .edge).kind == .anonymous)
        #expect(authorizer.denial(Credentials(), at: .control) == .missing)
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
            authorizer.count(reason, at: .edge, isEnforced: true, Credentials(), of: words)
        }
        let examples = authorizer.refusals.values.map(\.example)
        #expect(examples.count == 3 && examples.allSatisfy { $0.utf8.count < 250 })
    }

    @Test func aNumberOfAConfiguredKeyStandsForIt() throws {
        authorizer.configure(keys: [], plain: ["in-all-apps"], anonymous: [])
        let principal = try authorizer.admit(.bearer("in-all-apps"), at: .edge)
        let currentPrincipal = try #require(authorizer.currentPrincipal(of: principal.number))
        #expect(currentPrincipal == principal && currentPrincipal.number != 0)
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
        #expect(number > 0 && authorizer.currentPrincipal(of: number)?.id == made.key.id)
        let heard = Mutex(0)
        authorizer.observe { heard.withLock { $0 += 1 } }
        made.key.revokedAt = clock.now
        authorizer.put(made.key)
        #expect(heard.withLock(\.self) == 1)
        #expect(authorizer.currentPrincipal(of: number) == nil && authorizer.denial(.bearer(made.text)) == .revoked)
    }

    @Test func aKeyOfTheConfigurationGoesWithIt() throws {
        let made = MadeKey()
        authorizer.configure(keys: [made.key], plain: ["AIza-ours"], anonymous: [])
        let number = try authorizer.admit(.bearer(made.text), at: .edge).number
        var google = Credentials()
        google.googleKey = "AIza-ours"
        let plain = try authorizer.admit(google, at: .edge)
        #expect(plain.number != number && authorizer.currentPrincipal(of: plain.number) != nil)
        #expect(authorizer.denial(google, at: .control) == .unknown)
        authorizer.configure(keys: [], plain: [], anonymous: [])
        #expect(authorizer.currentPrincipal(of: number) == nil && authorizer.currentPrincipal(of: plain.number) == nil)
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
