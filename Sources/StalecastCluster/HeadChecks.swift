/// Decides which fetches one look at the log's head answers for: facts in, actions out. One look at a time, their
/// beginnings a few milliseconds apart; a look that has begun proves nothing for who asks after it.
package struct HeadChecks: Sendable {
    package typealias Ticket = UInt64

    package enum Action: Sendable, Hashable {
        /// Ask the log whether head and log metadata are what the replica has: ``answered(_:now:)``.
        case check
        /// Call ``due(now:)`` after this long.
        case wake(Duration)
        /// The replica had everything that was in the log when they asked, or it is not known whether.
        case release([Ticket], isVerified: Bool)
        /// There is more in the log: they may go on when it is read from now on to its end and applied.
        case catchUp([Ticket])
    }

    package enum Answer: Sendable, Hashable {
        case current, behind
        case none
    }

    private let spacing: Duration
    private var lastBegan: Duration?
    private var isChecking = false
    private var isWaking = false
    private var waiting: [Ticket] = []
    private var riding: [Ticket] = []

    /// - Parameter spacing: between the beginnings of two looks; default 5 ms, which is 200 reads a second at most.
    package init(spacing: Duration = .milliseconds(5)) { self.spacing = spacing }

    package mutating func asked(_ ticket: Ticket, now: Duration) -> Action? {
        waiting.append(ticket)
        return next(now)
    }

    package mutating func due(now: Duration) -> Action? {
        isWaking = false
        return next(now)
    }

    package mutating func answered(_ answer: Answer, now: Duration) -> [Action] {
        guard isChecking else { return [] }
        isChecking = false
        let answered = riding
        riding = []
        let outcome: Action =
            switch answer {
            case .current: .release(answered, isVerified: true)
            case .behind: .catchUp(answered)
            case .none: .release(answered, isVerified: false)
            }
        return [outcome] + (next(now).map { [$0] } ?? [])
    }

    private mutating func next(_ now: Duration) -> Action? {
        guard !isChecking, !waiting.isEmpty else { return nil }
        if let lastBegan, now < lastBegan + spacing {
            guard !isWaking else { return nil }
            isWaking = true
            return .wake(lastBegan + spacing - now)
        }
        (riding, waiting) = (waiting, [])
        isChecking = true
        lastBegan = now
        return .check
    }
}
