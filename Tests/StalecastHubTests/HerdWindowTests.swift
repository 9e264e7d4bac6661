import StalecastHub
import Testing

@Suite struct HerdWindowTests {
    @Test func itIsSubscribersOverBudget() {
        let window = HerdWindow(budget: 200)
        #expect(window.milliseconds(subscribers: 10_000, isUrgent: false) == 50_000)
        #expect(window.milliseconds(subscribers: 201, isUrgent: false) == 1005)
    }

    @Test func whatTheOriginTakesInASecondNeedsNone() {
        #expect(HerdWindow(budget: 200).milliseconds(subscribers: 200, isUrgent: false) == 0)
        #expect(HerdWindow(budget: 200).milliseconds(subscribers: 0, isUrgent: false) == 0)
    }

    @Test func withoutABudgetThereIsNone() {
        #expect(HerdWindow(budget: 0).milliseconds(subscribers: 1_000_000, isUrgent: false) == 0)
    }

    @Test func urgentSkipsItAndTheLongestBoundsIt() {
        let window = HerdWindow(budget: 1, longest: .seconds(60))
        #expect(window.milliseconds(subscribers: 1_000_000, isUrgent: false) == 60_000)
        #expect(window.milliseconds(subscribers: 1_000_000, isUrgent: true) == 0)
    }
}
