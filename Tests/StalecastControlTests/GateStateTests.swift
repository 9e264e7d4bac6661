import StalecastControl
import Testing

@Suite("Gate state")
struct GateStateTests {
    private let refusal = GoogleError.malformed("bad")

    @Test func requestsPassAndTheConnectionStaysOpen() {
        var state = GateState()
        for _ in 0..<3 {
            #expect(state.receivedHead(isLast: false) == .passOn)
            #expect(state.receivedEnd() == .passOn)
            #expect(state.answering(closes: false) == false)
            #expect(state.answered() == .nothing)
        }
        #expect(!state.isFinished)
    }

    @Test func aBadHeadIsRefusedAtOnceWhenNothingIsOwed() {
        var state = GateState()
        #expect(state.failed(refusal) == .refuse(refusal))
        #expect(state.isFinished)
        #expect(state.receivedHead(isLast: false) == .drop)
    }

    @Test func aBadRequestWaitsForTheAnswersBeforeIt() {
        var state = GateState()
        _ = state.receivedHead(isLast: false)
        _ = state.receivedEnd()
        #expect(state.failed(refusal) == .nothing)
        #expect(state.answering(closes: false) == false)
        #expect(state.answered() == .refuse(refusal))
    }

    @Test func aRequestWhoseBodyBreaksIsRefusedItself() {
        var state = GateState()
        _ = state.receivedHead(isLast: false)
        #expect(state.failed(refusal) == .refuse(refusal))
        #expect(state.answering(closes: false) == nil)
        #expect(state.answered() == .drop)
    }

    @Test func aBrokenBodyBehindAnOpenAnswerWaits() {
        var state = GateState()
        _ = state.receivedHead(isLast: false)
        _ = state.receivedEnd()
        _ = state.receivedHead(isLast: false)
        #expect(state.failed(refusal) == .nothing)
        #expect(state.answering(closes: false) == false)
        #expect(state.answered() == .refuse(refusal))
        #expect(state.answering(closes: false) == nil)
    }

    @Test func aBrokenBodyThatWasAnsweredAlreadyJustEnds() {
        var state = GateState()
        _ = state.receivedHead(isLast: false)
        _ = state.answering(closes: false)
        _ = state.answered()
        #expect(state.failed(refusal) == .finish)
    }

    @Test func theLastRequestsAnswerSaysClose() {
        var state = GateState()
        _ = state.receivedHead(isLast: false)
        _ = state.receivedEnd()
        _ = state.receivedHead(isLast: true)
        _ = state.receivedEnd()
        #expect(state.answering(closes: false) == false)
        #expect(state.answered() == .nothing)
        #expect(state.answering(closes: false) == true)
        #expect(state.answered() == .finish)
    }

    @Test func anAnswerThatClosesDropsWhatWasPipelinedBehindIt() {
        var state = GateState()
        _ = state.receivedHead(isLast: false)
        _ = state.receivedEnd()
        _ = state.receivedHead(isLast: false)
        #expect(state.answering(closes: true) == true)
        #expect(state.answered() == .finish)
        #expect(state.answering(closes: false) == nil)
        #expect(state.receivedBody() == .drop)
    }

    @Test func aHeadBudgetAllowsExactlyItsLimit() {
        var budget = HeadBudget(limit: 10)
        #expect(budget.take(7) == 7)
        #expect(budget.isInHead)
        #expect(budget.take(7) == 3)
        #expect(budget.take(1) == nil)
        budget.headComplete()
        #expect(budget.take(25) == 10)
        budget.requestComplete()
        #expect(budget.isIdle)
    }
}
