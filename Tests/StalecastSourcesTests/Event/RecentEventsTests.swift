import StalecastSources
import Testing

@Suite struct RecentEventsTests {
    private static let start = ContinuousClock.now

    @Test func takesAnEventOnce() {
        let recent = RecentEvents()
        #expect(recent.take(sender: "a", id: "1", now: Self.start))
        #expect(!recent.take(sender: "a", id: "1", now: Self.start))
        #expect(recent.take(sender: "b", id: "1", now: Self.start))
    }

    @Test func senderAndIdAreNotRunTogether() {
        let recent = RecentEvents()
        #expect(recent.take(sender: "a", id: "bc", now: Self.start))
        #expect(recent.take(sender: "ab", id: "c", now: Self.start))
        #expect(recent.take(sender: "", id: "abc", now: Self.start))
    }

    @Test func isBoundedAndForgetsTheOldestFirst() {
        let recent = RecentEvents(capacity: 3)
        for id in 1...1000 { #expect(recent.take(sender: "", id: "\(id)", now: Self.start)) }
        #expect(recent.count == 3)
        #expect(!recent.take(sender: "", id: "998", now: Self.start))
        #expect(recent.take(sender: "", id: "1", now: Self.start))
        #expect(recent.take(sender: "", id: "998", now: Self.start))
        #expect(recent.count == 3)
    }

    @Test func anIdIsFreeAgainAfterItsLifetime() {
        let recent = RecentEvents(capacity: 2, lifetime: .seconds(60))
        #expect(recent.take(sender: "", id: "1", now: Self.start))
        #expect(!recent.take(sender: "", id: "1", now: Self.start + .seconds(59)))
        #expect(recent.take(sender: "", id: "1", now: Self.start + .seconds(60)))
        #expect(!recent.take(sender: "", id: "1", now: Self.start + .seconds(61)))
        #expect(recent.count == 1)
    }
}
