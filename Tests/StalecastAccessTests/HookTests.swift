import StalecastAccess
import Synchronization
import Testing

@Suite struct HookTests {
    private let clock = MovedClock()
    private let authorizer: Authorizer

    private static let yes = #"{"subject":"ann","grants":[{"actions":["watch"]}],"cacheFor":900"#

    init() { authorizer = Authorizer(clock: { [clock] in clock.now }) }

    private func question(_ text: String) throws -> CallerHook.Question {
        try #require(CallerHook.Question([.init("cookie", text)]))
    }

    private func answering(_ status: Int, _ body: String) {
        authorizer.hook.configure(names: ["cookie"]) { _, done in
            done(CallerHook.Reply(status: status, body: Array(body.utf8)))
        }
    }

    /// Result of a look; nil while it has none.
    private func ask(_ question: CallerHook.Question) -> Denial?? {
        let end = Mutex<Denial??>(nil)
        authorizer.hook.ask(question) { denial in end.withLock { $0 = .some(denial) } }
        return end.withLock { $0 }
    }

    private func credentials(_ question: CallerHook.Question, _ verification: Credentials.Verification?) -> Credentials
    {
        var credentials = Credentials()
        (credentials.question, credentials.verification) = (question.digest, verification)
        return credentials
    }

    @Test func anAnswerIsKeptForFiveMinutesAtMost() throws {
        let asked = try question("a")
        answering(200, Self.yes + "}")
        #expect(ask(asked) == .some(nil))
        let principal = try authorizer.admit(credentials(asked, .good), at: .edge)
        #expect(
            principal.kind == .hook && principal.id == "ann" && authorizer.currentPrincipal(of: principal.number) != nil
        )
        answering(401, "")
        clock.advance(by: .seconds(299))
        #expect(ask(asked) == .some(nil))
        clock.advance(by: .seconds(1))
        #expect(ask(asked) == .some(.unknown))
        #expect(authorizer.currentPrincipal(of: principal.number) != nil, "its streams have an end of their own")
        clock.advance(by: .seconds(3300))
        #expect(authorizer.currentPrincipal(of: principal.number) == nil)
    }

    /// Tickets are counted by holder, and who is held in a stream's slot is known by number.
    @Test func whoIsAskedForAgainIsTheSame() throws {
        let (asked, other) = (try question("a"), try question("b"))
        func number(of question: CallerHook.Question, _ body: String) throws -> Int32 {
            answering(200, body)
            #expect(ask(question) == .some(nil))
            return try authorizer.admit(credentials(question, .good), at: .edge).number
        }
        let uncached = #"{"subject":"ann","grants":[{"actions":["watch"]}]}"#
        let first = try number(of: asked, uncached)
        #expect(try number(of: asked, uncached) == first)
        #expect(try number(of: other, uncached) != first)
        #expect(try number(of: asked, uncached.replacing("watch", with: "fetch")) != first)
        #expect(authorizer.currentPrincipal(of: first)?.may(.watch, project: "demo") == true, "its streams stand")
    }

    @Test func noCallerIsAdmittedWithoutAQuestion() throws {
        let asked = try question("a")
        answering(200, Self.yes + "}")
        #expect(try authorizer.authenticate(credentials(asked, nil), at: .edge) == .unverified)
        #expect(authorizer.denial(credentials(asked, .good)) == .notReady)
        #expect(authorizer.denial(credentials(asked, .refused(.unknown))) == .unknown)
        #expect(authorizer.denial(credentials(asked, .good), at: .control) == .missing)
    }

    @Test(arguments: [500, 302, 204, 200])
    func whatIsNeitherYesNorNoIsNotNow(_ status: Int) throws {
        answering(status, #"{"subject":"ann","grants":[]}"#)
        #expect(ask(try question("a")) == .some(.notReady))
    }

    @Test func whoIsOverIsRefused() throws {
        answering(200, Self.yes + #","expiresAt":"\#(clock.now)"}"#)
        #expect(ask(try question("a")) == .some(.expired))
    }

    /// Questions that are asked and not answered yet.
    private final class Asked: Sendable {
        private let dones = Mutex<[@Sendable (CallerHook.Reply?) -> Void]>([])

        var count: Int { dones.withLock { $0.count } }
        func add(_ done: @escaping @Sendable (CallerHook.Reply?) -> Void) { dones.withLock { $0.append(done) } }
        func answer(_ number: Int, _ reply: CallerHook.Reply? = nil) { dones.withLock { $0[number] }(reply) }
    }

    /// Asks as many questions as may be under way.
    private func busy() throws -> Asked {
        let asked = Asked()
        authorizer.hook.configure(names: ["cookie"]) { _, done in asked.add(done) }
        for number in 0..<CallerHook.maxInFlight { #expect(ask(try question("\(number)")) == .none) }
        #expect(asked.count == CallerHook.maxInFlight)
        return asked
    }

    @Test func soManyAreUnderWayAndOthersWait() throws {
        let asked = try busy()
        let ends = Mutex<[Denial?]>([])
        for text in ["0", "one more", "one more"] {
            authorizer.hook.ask(try question(text)) { denial in ends.withLock { $0.append(denial) } }
        }
        #expect(asked.count == CallerHook.maxInFlight)
        asked.answer(0)
        #expect(ends.withLock { $0 } == [.notReady], "one question is asked once")
        #expect(asked.count == CallerHook.maxInFlight + 1)
        asked.answer(CallerHook.maxInFlight, CallerHook.Reply(status: 200, body: Array((Self.yes + "}").utf8)))
        #expect(ends.withLock { $0 } == [.notReady, nil, nil])
        #expect(asked.count == CallerHook.maxInFlight + 1)
    }

    @Test func whoWaitedTooLongIsNotAskedFor() throws {
        let asked = try busy()
        let ends = Mutex<[Denial?]>([])
        func wait(_ text: String) throws {
            authorizer.hook.ask(try question(text)) { denial in ends.withLock { $0.append(denial) } }
        }
        try wait("early")
        clock.advance(by: .seconds(4))
        try wait("late")
        clock.advance(by: .seconds(2))
        asked.answer(0)
        #expect(ends.withLock { $0 } == [.notReady])
        #expect(asked.count == CallerHook.maxInFlight + 1, "the late one")
    }

    @Test func manyAnswersAtOnceAreNotWithinEachOther() throws {
        let asked = try busy()
        let ends = Mutex(0)
        for number in 0..<50_000 {
            authorizer.hook.ask(try question("waits \(number)")) { _ in ends.withLock { $0 += 1 } }
        }
        answering(401, "")
        asked.answer(0)
        #expect(ends.withLock { $0 } == 50_000)
    }

    @Test func whatWaitsHasABound() throws {
        let asked = try busy()
        let large = try question(String(repeating: "a", count: 33 << 20))
        #expect(ask(large) == .some(.notReady))
        asked.answer(0)
        #expect(ask(try question("small")) == .none && asked.count == CallerHook.maxInFlight + 1)
    }

    @Test func namesAndValuesDoNotRunTogether() throws {
        let one = CallerHook.Question([.init("a", "b"), .init("c", "d")])
        let other = CallerHook.Question([.init("a", "bc"), .init("", "d")])
        #expect(one?.digest != other?.digest && CallerHook.Question([]) == nil)
    }
}
