import StalecastClient
import Testing

/// The connection as pure state: facts in, actions out.
@Suite struct ConnectionMachineTests {
    private var machine = ConnectionMachine(ConnectionOptions())
    private let silent = LinkLoss(.silent, "no answer within 15 s")
    private let broken = LinkLoss(.broken, "connection refused")
    private let closed = LinkLoss(.closed, "the server ended the stream")
    private let notFound = LinkLoss(.refused(status: 404), "the server answered HTTP 404")

    private func state(_ state: ConnectionState) -> ConnectionMachine.Action { .tell(.state(state)) }

    /// The timer of an action list, or nothing to be fired.
    private func turn(_ actions: [ConnectionMachine.Action]) -> Int {
        for case .wait(_, .main, let turn) in actions { return turn }
        return -1
    }

    private mutating func lose(_ loss: LinkLoss, upFor: Double? = nil) -> [ConnectionMachine.Action] {
        machine.lost(loss, .main, upFor: upFor, random: 0.5)
    }

    private mutating func fire(_ turn: Int) -> [ConnectionMachine.Action] {
        machine.timerFired(.main, turn: turn, random: 0.5)
    }

    /// Two silences: long-poll is what works, and a stream is tried beside it from time to time.
    private mutating func reachLongPoll() {
        _ = machine.started(random: 0.5)
        for _ in 1...2 { _ = fire(turn(lose(silent))) }
        _ = machine.opened(.main)
    }

    @Test mutating func itOpensTellsAndComesBack() {
        #expect(machine.started(random: 0.5) == [state(.connecting), .attempt(.events, .main)])
        #expect(machine.started(random: 0.5).isEmpty, "again: no effect")
        #expect(machine.opened(.main) == [state(.open(transport: "sse"))])
        #expect(machine.phase == .open(.events))
        let lost = lose(broken, upFor: 100)
        #expect(lost == [state(.waiting(failures: 1, reason: "connection refused")), .wait(1.5, .main, turn: 2)])
        #expect(machine.phase == .waiting)
        #expect(fire(1).isEmpty, "a timer that was overtaken means nothing")
        #expect(fire(2) == [state(.connecting), .attempt(.events, .main)])
    }

    @Test mutating func theServersRetryIsWaitedOutWhateverChanceSays() {
        _ = machine.started(random: 0)
        machine.serverAsked(retry: 3)
        #expect(machine.lost(broken, .main, upFor: nil, random: 0).last == .wait(3, .main, turn: 2))
        machine.serverAsked(pause: 7)
        #expect(machine.lost(closed, .main, upFor: 1, random: 0).last == .wait(7, .main, turn: 3))
    }

    @Test mutating func aStreamThatIsHeldBackMakesWayForLongPollAndAProbe() {
        _ = machine.started(random: 0.5)
        _ = fire(turn(lose(silent)))
        let second = lose(silent)
        #expect(second.contains(.wait(60, .probe, turn: 0)))
        #expect(fire(turn(second)) == [state(.connecting), .attempt(.poll, .main)])
        #expect(machine.opened(.main) == [state(.open(transport: "poll"))])
        #expect(machine.answered(isNews: true, after: 0, random: 0.5) == [.attempt(.poll, .main)])
        let idle = machine.answered(isNews: false, after: 0.1, random: 0.5)
        #expect(
            idle == [.wait(1.5, .main, turn: turn(idle))], "an answer at once that says nothing is no reason to hurry")
        #expect(fire(turn(idle)) == [.attempt(.poll, .main)], "between two polls the state is that it works")
    }

    @Test mutating func aProbeThatDeliversAllTakesOverAndTellsNothingTwice() {
        reachLongPoll()
        let known = ConnectionEvent.stale(StaleNotice(version: 2))
        let news = ConnectionEvent.stale(StaleNotice(version: 3))
        #expect(machine.said(known, .main) == [.tell(known)])
        #expect(machine.timerFired(.probe, turn: 0, random: 0.5) == [.attempt(.events, .probe)])
        for event in [known, news] { #expect(machine.said(event, .probe).isEmpty) }
        let synced = ConnectionEvent.synced(cursor: "e.3")
        #expect(
            machine.said(synced, .probe) == [
                .cancel(.main), .adoptProbe, state(.open(transport: "sse")), .tell(news), .tell(synced),
            ])
        #expect(machine.phase == .open(.events))
    }

    @Test mutating func aVainProbeIsTriedLater() {
        reachLongPoll()
        _ = machine.timerFired(.probe, turn: 0, random: 0.5)
        #expect(
            machine.lost(broken, .probe, upFor: nil, random: 0.5) == [.cancel(.probe), .wait(120, .probe, turn: 0)])
        #expect(machine.phase == .open(.poll), "the long-poll goes on")
        _ = machine.timerFired(.probe, turn: 0, random: 0.5)
        #expect(machine.dismissed(.probe, random: 0.5) == [.cancel(.probe), .wait(240, .probe, turn: 0)])
    }

    @Test mutating func threeFailedPollsLeadBackAndEndTheProbe() {
        reachLongPoll()
        for _ in 1...2 { _ = fire(turn(lose(broken))) }
        let third = lose(broken)
        #expect(third.contains(.cancel(.probe)))
        #expect(fire(turn(third)).last == .attempt(.events, .main))
        #expect(machine.timerFired(.probe, turn: 0, random: 0.5).isEmpty)
    }

    @Test mutating func theBackgroundClosesAndTheForegroundOpens() {
        #expect(machine.enteredBackground().allSatisfy { $0 == .cancel(.main) })
        #expect(machine.started(random: 0.5).isEmpty && machine.phase == .background)
        #expect(machine.networkChanged(random: 0.5).isEmpty)
        #expect(machine.enteredForeground(random: 0.5).last == .attempt(.events, .main))
        #expect(machine.enteredBackground() == [.cancel(.main), state(.idle)])
        #expect(fire(2).isEmpty && machine.opened(.main).isEmpty)
        #expect(machine.stopped() == [.cancel(.main)])
        #expect(machine.enteredForeground(random: 0.5).isEmpty && machine.phase == .idle)
    }

    @Test mutating func anotherNetworkForgetsWhatWasLearnt() {
        reachLongPoll()
        let actions = machine.networkChanged(random: 0.5)
        #expect(actions == [.cancel(.main), .cancel(.probe), state(.connecting), .attempt(.events, .main)])
        #expect(lose(broken).last == .wait(1.5, .main, turn: turn(lose(broken)) - 1), "former failures do not count")
    }

    @Test mutating func aDismissalIsTheEndUntilItIsStartedAnew() {
        _ = machine.started(random: 0.5)
        #expect(machine.dismissed(.main, random: 0.5) == [.cancel(.main), state(.ended)])
        #expect(machine.networkChanged(random: 0.5).isEmpty)
        #expect(machine.enteredForeground(random: 0.5).isEmpty && machine.started(random: 0.5).isEmpty)
        _ = machine.stopped()
        #expect(machine.started(random: 0.5).last == .attempt(.events, .main))
    }

    @Test mutating func aTopicThatIsNotThereIsFoundBeforeAnythingIsTold() {
        _ = machine.started(random: 0.5)
        let refused = lose(notFound)
        #expect(refused.first == .sortTopics && !refused.contains { if case .tell = $0 { true } else { false } })
        let sorted = machine.sorted(unknown: ["NEWS"], remaining: 1, random: 0.5)
        #expect(sorted == [.tell(.unknownTopics(["NEWS"])), .cancel(.main), .attempt(.events, .main)])
        _ = machine.opened(.main)
        #expect(lose(closed, upFor: 100).first == .takeAllTopics, "the server may have learnt it")
    }

    @Test mutating func withoutAnyKnownTopicItWaits() {
        _ = machine.started(random: 0.5)
        _ = lose(notFound)
        let sorted = machine.sorted(unknown: ["NEWS"], remaining: 0, random: 0.5)
        #expect(
            sorted == [.tell(.unknownTopics(["NEWS"])), state(.waiting(failures: 1, reason: notFound.reason))])
        #expect(machine.phase == .waiting)
    }

    @Test func firebaseHasOneTransport() {
        var options = ConnectionOptions()
        options.dialect = .firebase(
            FirebaseStreamRequest(project: "p", namespace: "n", apiKey: "", appID: "") { ("i", "t") })
        var machine = ConnectionMachine(options)
        _ = machine.started(random: 0.5)
        for _ in 1...5 {
            let lost = machine.lost(silent, .main, upFor: nil, random: 0.5)
            #expect(machine.timerFired(.main, turn: turn(lost), random: 0.5).last == .attempt(.firebase, .main))
        }
    }
}
