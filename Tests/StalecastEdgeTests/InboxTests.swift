import StalecastEdge
import StalecastWire
import Testing

@Suite struct InboxTests {
    let inbox = Inbox<Int>()
    let heard = Scope.named("heard")
    let other = Scope.named("other")

    @Test func anEventWithoutSubscribersWaitsForTheNextTurn() {
        #expect(!inbox.hear(.of([heard])))
        #expect(inbox.post(1, for: other) == .waits)
        #expect(inbox.post(2, for: heard) == .wake)
        #expect(inbox.post(3, for: other) == .woken)
        #expect(inbox.post(4) == .woken)
        #expect(inbox.take() == [1, 2, 3, 4])
        #expect(inbox.post(5, for: other) == .waits)
        #expect(inbox.post(6) == .wake)
        #expect(inbox.take() == [5, 6])
    }

    @Test func aSubscriberThatComesWhileSomethingWaitsIsNotForgotten() {
        #expect(inbox.post(1, for: heard) == .waits)
        #expect(inbox.hear(.of([heard])))
        #expect(inbox.take() == [1])
        #expect(!inbox.hear(.of([])))
        #expect(inbox.post(2, for: heard) == .waits)
    }

    @Test func aCanaryWakesTheLoopOnceATick() {
        let tick: UInt64 = 100_000_000
        #expect(!inbox.hear(.of([], canaries: [other])))
        #expect(inbox.post(1, for: other, at: 5) == .wake)
        #expect(inbox.take() == [1])
        #expect(inbox.post(2, for: other, at: 5 + tick - 1) == .waits)
        #expect(inbox.post(3, for: heard, at: 5 + tick) == .waits)
        #expect(inbox.post(4, for: other, at: 5 + tick) == .wake)
        #expect(inbox.take() == [2, 3, 4])
        #expect(inbox.post(5, for: other, at: 6 + tick) == .waits)
        #expect(inbox.hear(.of([other], canaries: [other])))
        #expect(inbox.take() == [5])
        #expect(inbox.post(6, for: other, at: 7 + tick) == .wake)
    }

    @Test func nothingIsTakenAfterTheEnd() {
        #expect(inbox.post(1, for: heard) == .waits)
        #expect(inbox.close() == [1])
        #expect(inbox.post(2) == .closed)
        #expect(inbox.take().isEmpty)
    }
}

extension Scope {
    fileprivate static func named(_ name: String) -> Scope {
        Scope(project: try! ProjectID(name), namespace: LiveEdge.scope.namespace)
    }
}

extension HeardScopes {
    fileprivate static func of(_ scopes: [Scope], canaries: Set<Scope> = []) -> HeardScopes {
        var heard = HeardScopes()
        for scope in scopes { heard.add(scope) }
        heard.setCanaries(canaries)
        return heard
    }
}
