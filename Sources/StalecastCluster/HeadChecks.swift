/// Decides which fetches each read of the log's head answers: facts in, actions out. One read runs at a time, and reads
/// begin a few milliseconds apart. A read that has begun proves nothing for a fetch that asks later.
package struct HeadChecks: Sendable {
    package typealias Ticket = UInt64

    package enum Action: Sendable, Hashable {
        /// Ask the log whether head and log metadata are what the replica has: ``answered(_:now:)``.
        case check
        /// Call ``due(now:)`` after this long.
        case wake(Duration)
        /// Let these fetches go on. `isVerified`: the replica has everything that was in the log when they asked.
        case release([Ticket], isVerified: Bool)
        /// Let these fetches go on once the log was read to its present end and applied.
        case catchUp([Ticket])
    }

    /// Result of a look at the log's head.
    package enum Answer: String, Sendable, CaseIterable { case current, behind, unanswered }

    private let spacing: Duration
    private var lastBegan: Duration?
    private var isChecking = false
    private var isWaking = false
    private var waiting: [Ticket] = []
    private var riding: [Ticket] = []

    /// - Parameter spacing: time between the beginnings of two reads; default 5 ms, so at most 200 reads a second.
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
            case .unanswered: .release(answered, isVerified: false)
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
