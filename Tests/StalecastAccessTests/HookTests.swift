import StalecastAccess
import StalecastWire
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

    /// How a look ends; `nothing` when it has not.
    private func look(_ question: CallerHook.Question) -> Denial?? {
        let end = Mutex<Denial??>(nil)
        authorizer.hook.look(at: question) { denial in end.withLock { $0 = .some(denial) } }
        return end.withLock { $0 }
    }

    private func presented(_ question: CallerHook.Question, _ verdict: Presented.Verdict?) -> Presented {
        var presented = Presented()
        (presented.question, presented.verdict) = (question.digest, verdict)
        return presented
    }

    @Test func anAnswerIsKeptForFiveMinutesAtMost() throws {
        let asked = try question("a")
        answering(200, Self.yes + "}")
        #expect(look(asked) == .some(nil))
        let principal = try authorizer.admit(presented(asked, .good), at: .edge)
        #expect(principal.kind == .hook && principal.id == "ann" && authorizer.standing(of: principal.number) != nil)
        answering(401, "")
        clock.advance(by: .seconds(299))
        #expect(look(asked) == .some(nil))
        clock.advance(by: .seconds(1))
        #expect(look(asked) == .some(.unknown))
        #expect(authorizer.standing(of: principal.number) != nil, "its streams have an end of their own")
        clock.advance(by: .seconds(3300))
        #expect(authorizer.standing(of: principal.number) == nil)
    }

    /// Tickets are counted by holder, and who is held in a stream's slot is known by number.
    @Test func whoIsAskedForAgainIsTheSame() throws {
        let (asked, other) = (try question("a"), try question("b"))
        func number(of question: CallerHook.Question, _ body: String) throws -> Int32 {
            answering(200, body)
            #expect(look(question) == .some(nil))
            return try authorizer.admit(presented(question, .good), at: .edge).number
        }
        let uncached = #"{"subject":"ann","grants":[{"actions":["watch"]}]}"#
        let first = try number(of: asked, uncached)
        #expect(try number(of: asked, uncached) == first)
        #expect(try number(of: other, uncached) != first)
        #expect(try number(of: asked, uncached.replacing("watch", with: "fetch")) != first)
        #expect(authorizer.standing(of: first)?.may(.watch, project: "demo") == true, "its streams stand")
    }

    @Test func nobodyIsAdmittedWithoutALook() throws {
        let asked = try question("a")
        answering(200, Self.yes + "}")
        #expect(authorizer.denial(presented(asked, nil)) == .unverified)
        #expect(authorizer.denial(presented(asked, .good)) == .notReady)
        #expect(authorizer.denial(presented(asked, .refused(.unknown))) == .unknown)
        #expect(authorizer.denial(presented(asked, .good), at: .control) == .missing)
    }

    @Test(arguments: [500, 302, 204, 200])
    func whatIsNeitherYesNorNoIsNotNow(_ status: Int) throws {
        answering(status, #"{"subject":"ann","grants":[]}"#)
        #expect(look(try question("a")) == .some(.notReady))
    }

    @Test func whoIsOverIsRefused() throws {
        answering(200, Self.yes + #","expiresAt":"\#(clock.now)"}"#)
        #expect(look(try question("a")) == .some(.expired))
    }

    @Test func soManyAreUnderWay() throws {
        // Questions that nobody has answered.
        let open = Mutex<[@Sendable (CallerHook.Reply?) -> Void]>([])
        authorizer.hook.configure(names: ["cookie"]) { _, done in open.withLock { $0.append(done) } }
        for number in 0..<CallerHook.maxInFlight { #expect(look(try question("\(number)")) == .none) }
        #expect(look(try question("one more")) == .some(.notReady))
        let ends = Mutex<[Denial?]>([])
        authorizer.hook.look(at: try question("0")) { denial in ends.withLock { $0.append(denial) } }
        let dones = open.withLock { $0 }
        #expect(dones.count == CallerHook.maxInFlight, "one question is asked once")
        for done in dones { done(nil) }
        #expect(ends.withLock { $0 } == [.notReady])
        #expect(look(try question("one more")) == .none)
    }

    @Test func namesAndValuesDoNotRunTogether() throws {
        let one = CallerHook.Question([.init("a", "b"), .init("c", "d")])
        let other = CallerHook.Question([.init("a", "bc"), .init("", "d")])
        #expect(one?.digest != other?.digest && CallerHook.Question([]) == nil)
    }
}
