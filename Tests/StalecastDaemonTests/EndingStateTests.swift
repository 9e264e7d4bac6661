import Foundation
import StalecastDaemon
import Testing

@Suite struct EndingStateTests {
    @Test func anEndHasALastMomentWhateverHangs() {
        var state = EndingState()
        #expect(state.deadline == .max && state.timePassed(.max - 1) == nil)
        #expect(state.received(SIGTERM, at: 100) == .end)
        #expect(state.deadline == 14_000_000_100)
        #expect(state.timePassed(14_000_000_099) == nil)
        guard case .exit(70, _) = state.timePassed(14_000_000_100) else {
            Issue.record("must be gone by then")
            return
        }
    }

    @Test func aRepeatedSIGTERMNeitherEndsAtOnceNorGivesMoreTime() {
        var state = EndingState()
        #expect(state.received(SIGTERM, at: 0) == .end)
        #expect(state.received(SIGTERM, at: 5_000_000_000) == nil)
        #expect(state.deadline == EndingState.patience)
    }

    @Test(arguments: [SIGTERM, SIGINT]) func anInterruptDuringTheEndEndsAtOnce(first: Int32) {
        var state = EndingState()
        #expect(state.received(first, at: 0) == .end)
        guard case .exit(130, _) = state.received(SIGINT, at: 1) else {
            Issue.record("a second Ctrl-C is meant")
            return
        }
    }

    @Test func reloadsAreForDaemonsThatStay() {
        var state = EndingState()
        #expect(state.received(SIGHUP, at: 0) == .reload)
        #expect(state.received(SIGHUP, at: 1) == .reload)
        #expect(state.received(SIGINT, at: 2) == .end)
        #expect(state.received(SIGHUP, at: 3) == nil)
    }

    @Test(
        arguments: [
            (nil, false), ("", false), ("enable=no", false), ("color=yes", false), ("enable=yes", true),
            ("interactive=no,enable=YES,timeout=2s", true),
        ] as [(String?, Bool)])
    func backtracesAreOffUnlessAskedFor(settings: String?, asked: Bool) {
        #expect(ProcessSignals.asksForTraces(settings) == asked)
    }
}
