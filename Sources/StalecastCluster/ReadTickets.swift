/// Readers that wait until the log has said whether the replica is at its end.
struct ReadTickets {
    typealias Ticket = UInt64

    private var waiting: [Ticket: (reader: CheckedContinuation<Bool?, Never>, deadline: ContinuousClock.Instant)] = [:]
    private var last: Ticket = 0

    var isEmpty: Bool { waiting.isEmpty }

    mutating func add(_ reader: CheckedContinuation<Bool?, Never>, for time: Duration) -> Ticket {
        last += 1
        waiting[last] = (reader, .now + time)
        return last
    }

    /// - Parameter answer: nil: it is not known in time.
    mutating func answer(_ ticket: Ticket, _ answer: Bool?) {
        waiting.removeValue(forKey: ticket)?.reader.resume(returning: answer)
    }

    /// Tells readers whose time is up that it is not known.
    mutating func expire(at now: ContinuousClock.Instant = .now) {
        for (ticket, reader) in waiting where reader.deadline <= now { answer(ticket, nil) }
    }

    /// Time until the patience of the first reader ends; nil without readers.
    func untilNext(now: ContinuousClock.Instant = .now) -> Duration? {
        waiting.values.map(\.deadline).min().map { max(.zero, now.duration(to: $0)) }
    }

    mutating func end() { for ticket in waiting.keys { answer(ticket, nil) } }
}
