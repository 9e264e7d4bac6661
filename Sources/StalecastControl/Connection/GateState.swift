/// What ``RequestGate`` knows about a connection: which requests went through, which were answered, and whether the
/// connection is coming to its end. Facts go in, what is to be done comes out; no channel in here.
package struct GateState: Sendable {
    /// What to do after a fact.
    package enum Action: Hashable, Sendable {
        case nothing
        /// Hand the part on.
        case passOn
        /// Drop the part.
        case drop
        /// Send this refusal, the last answer of the connection.
        case refuse(GoogleError)
        /// Everything is answered: end the connection once what was written is out.
        case finish
    }

    private enum Phase: Hashable {
        case open
        /// No request is taken any more; what was taken is still answered, then comes the refusal, if there is one.
        case closing(GoogleError?)
        /// The last answer was written.
        case finished
    }

    private var phase = Phase.open
    /// Requests handed on whose answer has not ended.
    private var unanswered = 0
    /// The newest request's body is still arriving.
    package private(set) var isReceiving = false

    package init() {}

    /// True once the connection's last answer was written.
    package var isFinished: Bool { phase == .finished }

    /// A valid head arrived. `isLast`: the client wants no answer after this one.
    package mutating func receivedHead(isLast: Bool) -> Action {
        guard phase == .open else { return .drop }
        unanswered += 1
        isReceiving = true
        if isLast { phase = .closing(nil) }
        return .passOn
    }

    /// A piece of a body arrived.
    package func receivedBody() -> Action { isReceiving && phase != .finished ? .passOn : .drop }

    /// A request's end arrived.
    package mutating func receivedEnd() -> Action {
        guard isReceiving, phase != .finished else { return .drop }
        isReceiving = false
        return .passOn
    }

    /// What arrives from now on is worthless, because of `error`.
    package mutating func failed(_ error: GoogleError) -> Action {
        guard phase != .finished else { return .nothing }
        if case .closing(.some) = phase { return .nothing }
        if isReceiving, unanswered == 0 { return finish() }
        phase = .closing(error)
        return afterAnswer()
    }

    /// An answer's head is to be written: whether it should say `Connection: close`, nil when it must not be written.
    package mutating func answering(closes: Bool) -> Bool? {
        guard phase != .finished else { return nil }
        if closes, phase == .open { phase = .closing(nil) }
        if closes { unanswered = 1 }
        if case .closing(nil) = phase { return unanswered <= 1 }
        return false
    }

    /// An answer's end was written.
    package mutating func answered() -> Action {
        guard phase != .finished else { return .drop }
        unanswered = max(0, unanswered - 1)
        return afterAnswer()
    }

    private mutating func afterAnswer() -> Action {
        guard case .closing(let refusal) = phase else { return .nothing }
        let isBroken = refusal != nil && isReceiving && unanswered > 0
        guard unanswered == (isBroken ? 1 : 0) else { return .nothing }
        phase = .finished
        return refusal.map(Action.refuse) ?? .finish
    }

    private mutating func finish() -> Action {
        phase = .finished
        return .finish
    }
}
