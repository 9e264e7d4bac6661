import Foundation
import StalecastClient
import Testing

/// Tests when and how often a message is followed by a fetch: the pure state.
@Suite struct AnnouncedFetchTests {
    private let now = Date(timeIntervalSince1970: 1_800_000_000)
    private var fetch = AnnouncedFetch()

    @Test mutating func withoutAWindowTheFetchIsAtOnce() {
        #expect(fetch.announced(5, delay: 0, at: now) == .fetch(attempt: 1))
        #expect(fetch.answered(5, at: now, random: 0.5) == .settled)
        #expect(fetch.phase == .idle)
    }

    @Test mutating func aNewerAnswerWillDo() {
        _ = fetch.announced(5, delay: 0, at: now)
        #expect(fetch.answered(9, at: now, random: 0.5) == .settled)
    }

    @Test mutating func anAnswerWithoutVersionWillDo() {
        _ = fetch.announced(5, delay: 0, at: now)
        #expect(fetch.answered(nil, at: now, random: 0.5) == .settled)
    }

    @Test mutating func anOldAnswerIsAskedForThreeTimesAndNoMore() {
        #expect(fetch.announced(5, delay: 0, at: now) == .fetch(attempt: 1))
        #expect(fetch.answered(4, at: now, random: 0.5) == .wait(0.2, turn: 1))
        #expect(fetch.timerFired(turn: 1) == .fetch(attempt: 2))
        #expect(fetch.answered(4, at: now, random: 0.5) == .wait(0.8, turn: 2))
        #expect(fetch.timerFired(turn: 2) == .fetch(attempt: 3))
        #expect(fetch.answered(4, at: now, random: 0.5) == .gaveUp)
        #expect(fetch.phase == .idle)
        #expect(fetch.timerFired(turn: 2) == .none)
        #expect(fetch.announced(6, delay: 0, at: now) == .fetch(attempt: 1), "a new version has attempts of its own")
    }

    @Test mutating func aLaterMessageDoesNotPutOffAFetchThatIsDue() {
        #expect(fetch.announced(5, delay: 10, at: now) == .wait(10, turn: 1))
        let later = now.addingTimeInterval(4)
        #expect(fetch.announced(6, delay: 10, at: later) == .wait(6, turn: 2))
        #expect(fetch.timerFired(turn: 1) == .none, "the former timer is void")
        #expect(fetch.target == 6)
        #expect(fetch.timerFired(turn: 2) == .fetch(attempt: 1))
    }

    @Test mutating func anUrgentMessageEndsTheWait() {
        _ = fetch.announced(5, delay: 60, at: now)
        #expect(fetch.announced(6, delay: 0, at: now) == .fetch(attempt: 1))
    }

    @Test mutating func aMessageDuringAFetchCountsFromThere() {
        _ = fetch.announced(5, delay: 0, at: now)
        #expect(fetch.announced(6, delay: 3, at: now) == .none)
        #expect(fetch.answered(5, at: now, random: 0.5) == .wait(3, turn: 1), "the later message's window counts")
        #expect(fetch.timerFired(turn: 1) == .fetch(attempt: 1), "and it has attempts of its own")
        #expect(fetch.announced(7, delay: 0, at: now) == .none)
        #expect(fetch.answered(6, at: now, random: 0.5) == .fetch(attempt: 1), "without a window, at once")
        #expect(fetch.answered(7, at: now, random: 0.5) == .settled)
    }

    @Test mutating func aMessageWithoutAVersionDuringAFetchWantsAnotherOne() {
        _ = fetch.announced(5, delay: 0, at: now)
        #expect(fetch.announced(nil, delay: 0, at: now) == .none)
        #expect(
            fetch.answered(5, at: now, random: 0.5) == .fetch(attempt: 1), "the answer may be older than the message")
        #expect(fetch.answered(5, at: now, random: 0.5) == .settled)
    }

    @Test mutating func anAppsOwnFetchEndsTheWait() {
        _ = fetch.announced(5, delay: 60, at: now)
        #expect(fetch.reached(4) == .none)
        #expect(fetch.reached(5) == .settled)
        #expect(fetch.timerFired(turn: 1) == .none)
    }

    @Test mutating func withoutAnswersItGoesOnSlowly() {
        _ = fetch.announced(5, delay: 0, at: now)
        var pauses: [TimeInterval] = []
        for _ in 1...12 {
            guard case .wait(let pause, let turn) = fetch.failed(at: now, random: 0.5) else { break }
            pauses.append(pause)
            _ = fetch.timerFired(turn: turn)
        }
        #expect(pauses == [0.2, 0.8, 15, 30, 60, 120, 240, 480, 900, 900, 900, 900])
        #expect(fetch.answered(5, at: now, random: 0.5) == .settled)
    }

    @Test mutating func throttlingIsWaitedOutAndIsNoAttempt() {
        _ = fetch.announced(5, delay: 0, at: now)
        let end = now.addingTimeInterval(90)
        #expect(fetch.throttled(until: end, at: now, random: 0.25) == .wait(90.25, turn: 1))
        #expect(fetch.timerFired(turn: 1) == .fetch(attempt: 1))
    }

    @Test mutating func aLowerAnnouncementDoesNotLowerTheTarget() {
        _ = fetch.announced(9, delay: 5, at: now)
        _ = fetch.announced(7, delay: 5, at: now)
        #expect(fetch.target == 9)
    }
}
