import StalecastAccess
import StalecastWire
import Testing

@Suite struct TicketTests {
    private let clock = MovedClock()
    private let authorizer: Authorizer
    private var random = SystemRandomNumberGenerator()

    init() { authorizer = Authorizer(clock: { [clock] in clock.now }) }

    private mutating func made(_ principal: Int32 = 0) throws -> String {
        let ticket = Ticket(principal: principal, topics: [.pushRC], project: nil, namespace: nil)
        return try #require(authorizer.tickets.make(ticket, of: "key:\(principal)", using: &random)).text
    }

    private func redeemed(_ text: String) -> Credentials {
        var credentials = Credentials()
        credentials.ticket = text
        do { credentials.verification = .redeemed(try authorizer.tickets.redeem(text)) } catch {
            credentials.verification = .refused(error)
        }
        return credentials
    }

    @Test mutating func aTicketIsGoodOnce() throws {
        let text = try made()
        #expect(text.utf8.count == 36)
        #expect(authorizer.denial(redeemed(text)) == nil)
        #expect(authorizer.denial(redeemed(text)) == .unknown)
        #expect(authorizer.denial(redeemed("stt_")) == .unknown)
    }

    @Test mutating func ofManyWhoComeTogetherOneGetsIn() async throws {
        let text = try made()
        let authorizer = authorizer
        let admitted = await withTaskGroup { group in
            for _ in 0..<64 {
                group.addTask { (try? authorizer.tickets.redeem(text)) != nil }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(admitted == 1)
    }

    @Test mutating func itIsGoodForAMinute() throws {
        let (one, other) = (try made(), try made())
        clock.advance(by: .milliseconds(59_999))
        #expect(authorizer.denial(redeemed(one)) == nil)
        clock.advance(by: .milliseconds(1))
        #expect(authorizer.denial(redeemed(other)) == .expired)
        let third = try made()
        clock.advance(by: .seconds(-3600))
        #expect(authorizer.denial(redeemed(third)) == .expired, "a clock that was set back gives it no more life")
    }

    @Test mutating func whoseKeyWasRevokedDoesNotGetIn() throws {
        var key = MadeKey()
        authorizer.put(key.key)
        let principal = try authorizer.admit(.bearer(key.text), at: .edge)
        let (before, after) = (try made(principal.number), try made(principal.number))
        #expect(try authorizer.admit(redeemed(before), at: .edge) == principal)
        key.key.revokedAt = clock.now
        authorizer.put(key.key)
        #expect(authorizer.denial(redeemed(after)) == .revoked)
    }

    @Test mutating func itKeepsTheEndOfWhatItWasMadeWith() throws {
        var key = MadeKey()
        key.key.expiresAt = clock.now.advanced(by: .seconds(30))
        authorizer.put(key.key)
        let number = try authorizer.admit(.bearer(key.text), at: .edge).number
        let (early, late) = (try made(number), try made(number))
        #expect(try authorizer.admit(redeemed(early), at: .edge).expiresAt == key.key.expiresAt)
        clock.advance(by: .seconds(30))
        #expect(authorizer.denial(redeemed(late)) == .revoked)
    }

    @Test mutating func besideItNothingElseIsTaken() throws {
        var credentials = redeemed(try made())
        credentials.apiKey = "x"
        #expect(authorizer.denial(credentials) == .ambiguous)
        (credentials.apiKey, credentials.isRepeated) = (nil, true)
        #expect(authorizer.denial(credentials) == .ambiguous)
        #expect(authorizer.denial(redeemed(try made()), at: .control) == .malformed)
        var unseen = Credentials()
        unseen.ticket = try made()
        #expect(try authorizer.authenticate(unseen, at: .edge) == .unverified)
        #expect(authorizer.denial(unseen) == .notReady)
        #expect(authorizer.unknownToken(in: unseen) == nil)
    }

    @Test mutating func thereAreSoManyAtOnce() throws {
        // Tokens of one subject have numbers of their own, and count together.
        for number in 0..<TicketBook.maxOfPrincipal {
            let ticket = Ticket(principal: Int32(number), topics: [], project: nil, namespace: nil)
            #expect(authorizer.tickets.make(ticket, of: "token:a:ann", using: &random) != nil)
        }
        let ticket = Ticket(principal: 7, topics: [], project: nil, namespace: nil)
        #expect(authorizer.tickets.make(ticket, of: "token:a:ann", using: &random) == nil)
        for principal in 1000..<1015 {
            for _ in 0..<TicketBook.maxOfPrincipal { _ = try made(Int32(principal)) }
        }
        let last = Ticket(principal: 1, topics: [], project: nil, namespace: nil)
        #expect(authorizer.tickets.make(last, of: "other", using: &random) == nil)
        clock.advance(by: TicketBook.life)
        #expect(authorizer.tickets.make(ticket, of: "token:a:ann", using: &random) != nil)
    }
}
