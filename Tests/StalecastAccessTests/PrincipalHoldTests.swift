import StalecastAccess
import StalecastWire
import Testing

/// Tables that remember four principals.
@Suite struct PrincipalHoldTests {
    enum Kind: CaseIterable { case token, certificate, hook }

    private let clock = MovedClock()
    private let authorizer: Authorizer
    private let made = MadeIssuer(file: "https://keys")

    init() throws {
        authorizer = Authorizer(remembering: 4, clock: { [clock] in clock.now })
        let watch = Grant(actions: [.watch])
        authorizer.configure(
            keys: [], plain: [], anonymous: [], issuers: [made.issuer],
            certificates: [.init(name: Glob("*.example"), grant: watch)])
        _ = authorizer.tokens.due()
        authorizer.fetched(try made.set(), of: made.issuer)
        authorizer.hook.configure(names: ["cookie"]) { question, done in
            let body = #"{"subject":"\#(question.headers[0].value)","grants":[{"actions":["watch"]}],"cacheFor":60}"#
            done(CallerHook.Reply(status: 200, body: Array(body.utf8)))
        }
    }

    private func admit(_ kind: Kind, _ name: String) throws -> Int32 {
        var credentials = Credentials()
        switch kind {
        case .token:
            return try authorizer.admit(.bearer(try made.token(["sub": .string(name)], at: clock.now)), at: .control)
                .number
        case .certificate:
            credentials.certificate = ClientCertificate(
                digest: SecretDigest(of: name), uris: [], dnsNames: ["\(name).example"],
                expiresAt: clock.now.advanced(by: .seconds(60)))
        case .hook:
            let question = try #require(CallerHook.Question([.init("cookie", name)]))
            authorizer.hook.ask(question) { _ in }
            (credentials.question, credentials.verification) = (question.digest, .good)
        }
        return try authorizer.admit(credentials, at: .edge).number
    }

    private func admitCrowd(_ kind: Kind) throws {
        for number in 0..<10 { _ = try admit(kind, "crowd\(number)") }
    }

    @Test(arguments: Kind.allCases)
    func aHeldPrincipalIsKnownHoweverManyCome(_ kind: Kind) throws {
        let (held, other) = (try admit(kind, "held"), try admit(kind, "other"))
        var holds = [authorizer.hold(held), authorizer.hold(held)]
        #expect(holds.allSatisfy { $0 != nil })
        try admitCrowd(kind)
        #expect(authorizer.currentPrincipal(of: held) != nil)
        #expect(authorizer.currentPrincipal(of: other) == nil, "nothing holds it")
        holds.removeLast()
        try admitCrowd(kind)
        #expect(authorizer.currentPrincipal(of: held) != nil, "another stream has it")
        holds.removeLast()
        #expect(authorizer.currentPrincipal(of: held) == nil)
    }

    @Test(arguments: Kind.allCases)
    func aPrincipalAmongTheNewestIsKnownAfterItsStream(_ kind: Kind) throws {
        let number = try admit(kind, "ann")
        do { _ = authorizer.hold(number) }
        #expect(authorizer.currentPrincipal(of: number) != nil)
    }

    @Test func aHoldKeepsNoCredentialThatEnded() throws {
        let number = try admit(.token, "held")
        let hold = authorizer.hold(number)
        clock.advance(by: .seconds(601))
        #expect(authorizer.currentPrincipal(of: number) == nil && hold != nil)
    }

    @Test(arguments: Kind.allCases)
    func aTicketKnowsItsPrincipalUntilItIsUsed(_ kind: Kind) throws {
        let number = try admit(kind, "held")
        var random = SystemRandomNumberGenerator()
        func ticket() -> Ticket {
            Ticket(principal: number, hold: authorizer.hold(number), topics: [.pushRC], project: nil, namespace: nil)
        }
        let text = try #require(authorizer.tickets.make(ticket(), of: "held", using: &random)).text
        try admitCrowd(kind)
        var credentials = Credentials()
        credentials.ticket = text
        credentials.verification = .redeemed(try authorizer.tickets.redeem(text))
        #expect(authorizer.denial(credentials) == nil)
        credentials.verification = nil
        #expect(authorizer.currentPrincipal(of: number) == nil)
    }

    @Test func keysAndAnonymousCallersNeedNoHold() throws {
        let key = MadeKey()
        authorizer.put(key.key)
        #expect(authorizer.hold(try authorizer.admit(.bearer(key.text), at: .edge).number) == nil)
        #expect(authorizer.hold(0) == nil)
    }
}
