import StalecastClient
import Testing

/// Tests how long a connection waits, and which transport it thinks worth trying.
@Suite struct ReconnectScheduleTests {
    private let broken = LinkLoss(.broken, "connection refused")

    /// The delay after a loss, in seconds.
    private func delay(
        _ schedule: inout ReconnectSchedule, _ loss: LinkLoss? = nil, upFor: Double? = nil, random: Double = 0.5
    ) -> Double { schedule.lost(loss ?? broken, upFor: upFor, random: random) }

    private func leadsToPoll(_ choice: inout TransportChoice, _ kind: LinkLoss.Kind, upFor: Double? = nil) -> Bool {
        choice.eventsLost(kind, upFor: upFor)
    }

    private func leadsToEvents(_ choice: inout TransportChoice) -> Bool { choice.pollLost() }

    @Test func delaysGrowWithFullJitterOnTopOfTheFirst() {
        var schedule = ReconnectSchedule(firstDelay: 1, longestDelay: 60)
        let delays = (0..<10).map { _ in delay(&schedule, random: 0.5) }
        #expect(delays == [1.5, 2, 3, 5, 9, 17, 31, 31, 31, 31])
        #expect(schedule.failures == 10)
        #expect(delay(&schedule, random: 0) == 1, "chance never takes it down")
        #expect(delay(&schedule, random: 0.999) < 61)
    }

    @Test func itNeverGivesUp() {
        var schedule = ReconnectSchedule(firstDelay: 1, longestDelay: 60)
        for _ in 0..<100_000 { #expect((1..<61).contains(delay(&schedule, random: 0.9))) }
    }

    @Test func aConnectionThatHeldMakesFormerFailuresVoid() {
        var schedule = ReconnectSchedule(firstDelay: 1, longestDelay: 60)
        for _ in 0..<5 { _ = delay(&schedule, random: 0.5) }
        #expect(delay(&schedule, upFor: 59, random: 0.5) == 17)
        #expect(delay(&schedule, upFor: 60, random: 0.5) == 1.5)
        #expect(schedule.failures == 1)
    }

    @Test func theServersRetryIsTheDelayAfterAStreamAndTheLeastAfterAFailure() {
        var schedule = ReconnectSchedule(firstDelay: 1, longestDelay: 60)
        schedule.serverAsked(for: 3)
        #expect(delay(&schedule, upFor: 1000, random: 0.5) == 3)
        #expect(delay(&schedule, random: 0.5) == 4)
        #expect(delay(&schedule, random: 0.5) == 5)
        #expect(delay(&schedule, LinkLoss(.foreign, "a page"), random: 0) == 3, "chance goes on top")
        schedule.serverAsked(for: 1e12)
        #expect(delay(&schedule, upFor: 1000, random: 0.5) == 3600)
    }

    @Test func retryAfterIsWaitedOutAndSpread() {
        var schedule = ReconnectSchedule(firstDelay: 1, longestDelay: 60)
        let overloaded = LinkLoss(.refused(status: 503), "HTTP 503", retryAfter: 20)
        #expect(delay(&schedule, overloaded, random: 0) == 20)
        let late = delay(&schedule, overloaded, random: 0.99)
        #expect(late > 24 && late < 26)
    }

    @Test func aRefusalWeighsMoreThanAnOutage() {
        var schedule = ReconnectSchedule(firstDelay: 1, longestDelay: 60)
        let delays = (0..<9).map { _ in delay(&schedule, LinkLoss(.refused(status: 404), "")) }
        #expect(delays == [5, 9, 17, 33, 65, 129, 257, 301, 301])
        schedule = schedule.withoutFailures
        #expect(delay(&schedule, LinkLoss(.refused(status: 429), ""), random: 0.5) == 1.5)
    }

    // MARK: Transports

    @Test func twoSilencesInARowLeadToPolls() {
        var choice = TransportChoice(probeDelay: 60)
        #expect(!leadsToPoll(&choice, .silent))
        #expect(!leadsToPoll(&choice, .closed, upFor: 100))
        #expect(!leadsToPoll(&choice, .silent, upFor: 70), "the stream held in between")
        #expect(!leadsToPoll(&choice, .broken))
        #expect(leadsToPoll(&choice, .silent))
        #expect(choice.transport == .poll)
    }

    @Test func brokenConnectionsAloneDoNot() {
        var choice = TransportChoice(probeDelay: 60)
        for _ in 0..<100 {
            #expect(!leadsToPoll(&choice, .broken))
            #expect(!leadsToPoll(&choice, .refused(status: 503), upFor: 1))
            #expect(!leadsToPoll(&choice, .closed, upFor: 1))
        }
    }

    @Test func theStreamIsTriedLaterAndLater() {
        var choice = TransportChoice(probeDelay: 60)
        #expect(leadsToPoll(&choice, .foreign))
        var delays: [Double] = []
        for _ in 0..<6 {
            delays.append(choice.probeDelay)
            choice.probeFailed()
        }
        #expect(delays == [60, 120, 240, 480, 900, 900])
        choice.probeSucceeded()
        #expect(choice.transport == .events && choice.probeDelay == 900)
        #expect(!leadsToPoll(&choice, .closed, upFor: 1000))
        #expect(choice.probeDelay == 60)
        #expect(leadsToPoll(&choice, .foreign))
        choice.networkChanged()
        #expect(choice.transport == .events)
    }

    @Test func threeFailedPollsLeadBackToTheStream() {
        var choice = TransportChoice(probeDelay: 60)
        #expect(leadsToPoll(&choice, .foreign))
        #expect(!leadsToEvents(&choice) && !leadsToEvents(&choice))
        choice.pollAnswered()
        #expect(!leadsToEvents(&choice) && !leadsToEvents(&choice))
        #expect(leadsToEvents(&choice))
        #expect(choice.transport == .events)
    }
}
