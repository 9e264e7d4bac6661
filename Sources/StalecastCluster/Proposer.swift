package import StalecastRecords
package import StalecastWire

/// One publish on its way into the log: facts in, at most one action out. Its driver owns the clock (any one that
/// only goes forward), the replica and the log.
///
///     begin ─> prepare ─> append ─ committed, or taken by itself ──> waits until applied ─> answers
///                ^  │        │ ^──── unknown: the same again
///                │  └ does not match: catches up once, looks again, only then refuses
///                └── catch up <── taken by another, or the metadata changed: it can never land
package struct Proposer: Sendable {
    /// Times for a publish.
    package struct Limits: Sendable {
        /// Time from the beginning to the answer.
        package var answer: Duration = .seconds(10)
        /// Time from the beginning until the outcome matters to no publisher any more. Retention removes nothing
        /// younger than six times this: else "nothing is there" might mean that it was removed.
        package var giveUp: Duration = .seconds(600)
        /// The longest pause of one who lost the race for a place three times; half of it on average.
        package var lostPause: Duration = .milliseconds(40)
        /// Pause before the log is asked again after it gave no answer.
        package var retryPause: Duration = .milliseconds(50)
        /// Pause between looks once the publisher has been answered: such publishes may be many.
        package var laterPause: Duration = .seconds(2)

        package init() {}
    }

    package enum Action: Sendable {
        /// Make the entry for the replica's head, or say why not: ``prepared(_:now:)``.
        case prepare
        /// Read the log from now on until its end, and apply it: ``caughtUp(_:now:)``.
        case catchUp
        /// Append it: ``appended(_:now:chance:)``, also when the caller's own time for the call is up.
        case append(Draft)
        /// Call ``pauseEnded(now:)`` after this long.
        case pause(Duration)
        /// Give the entry to the follower, and call ``applied(_:of:now:)`` whenever the replica has moved.
        case offer(LogEntry)
        /// The publisher's answer; comes once. After ``Answer/unknown`` there are further actions.
        case answer(Answer)
        /// Outcome of a publish that was answered ``Answer/unknown``; nil for ever unknown. The last action.
        case resolve(Bool?)
    }

    package enum Answer: Sendable, Hashable {
        /// The entry is in the log, and applied here.
        case committed(CommitSequence)
        /// The publish is certainly not committed: for the reason last given to ``prepared(_:now:)``, or because its
        /// owner was deposed.
        case refused
        /// The publish is certainly not committed: in time there was no way.
        case notCommitted
        case unknown
    }

    /// An entry, and the log metadata it was made under.
    package struct Draft: Sendable {
        package let entry: LogEntry
        package let logMetadata: LogMetadata

        package init(entry: LogEntry, logMetadata: LogMetadata) {
            self.entry = entry
            self.logMetadata = logMetadata
        }
    }

    /// Answer of the replica to the publish.
    package enum Preparation: Sendable {
        case draft(Draft)
        /// Its precondition does not hold here.
        case refused
        /// The replica does not know the log's metadata, or whether it is still the log's.
        case unready
    }

    private enum Phase {
        case preparing
        /// Then asks again for this draft, or prepares another for nil.
        case catchingUp(then: Draft?)
        case appending(Draft)
        /// Asks again for this draft, or catches up for nil.
        case pausing(then: Draft?)
        case applying(Draft)
        case ended
    }

    package let publish: PublishID
    private let began: Duration
    private let limits: Limits
    private var phase = Phase.preparing
    /// True once the replica has caught up: a publish that it refuses after this, the log refuses.
    private var hasCaughtUp = false
    /// Nothing was made of it since the log was read last for that reason.
    private var wasUnready = false
    /// A call for the present draft may have had an effect.
    private var isUncertain = false
    private var hasAnswered = false
    private var losses = 0

    package init(_ publish: PublishID, now: Duration, limits: Limits = Limits()) {
        self.publish = publish
        began = now
        self.limits = limits
    }

    /// Time of the next call of ``deadlinePassed(now:)``.
    package var deadline: Duration { began + limits.answer }

    package func begin() -> Action { .prepare }

    package mutating func prepared(_ preparation: Preparation, now: Duration) -> Action? {
        guard case .preparing = phase else { return nil }
        if isLate(now) { return end(.notCommitted) }
        switch preparation {
        case .draft(let draft):
            wasUnready = false
            phase = .appending(draft)
            return .append(draft)
        case .refused where hasCaughtUp: return end(.refused)
        // Catching up did not help; what is left is to wait.
        case .unready where wasUnready: return pause(limits.retryPause, then: nil)
        case .refused, .unready:
            // The replica of a node that is ready is ahead of what its follower knows for a moment at a time.
            if case .unready = preparation { wasUnready = true }
            phase = .catchingUp(then: nil)
            return .catchUp
        }
    }

    /// - Parameter isDone: false when the log could not be read to its end.
    package mutating func caughtUp(_ isDone: Bool, now: Duration) -> Action? {
        guard case .catchingUp(let draft) = phase else { return nil }
        // This draft may still land, so the log is asked again for this one and no other.
        if let draft { return pause(againPause, then: draft) }
        if isLate(now) { return end(.notCommitted) }
        guard isDone else { return pause(limits.retryPause, then: nil) }
        hasCaughtUp = true
        phase = .preparing
        return .prepare
    }

    package mutating func appended(
        _ result: Result<Appended, LogError>, now: Duration, chance: inout some RandomNumberGenerator
    ) -> Action? {
        guard case .appending(let draft) = phase else { return nil }
        switch result {
        case .success(.committed): return landed(draft)
        case .success(.taken(let entry)) where entry.publish.isSameRequest(as: publish):
            // Two nodes propose under one key: the log has the entry of one of them.
            return landed(Draft(entry: entry, logMetadata: draft.logMetadata))
        case .success(.taken), .success(.superseded): return startOver(now, &chance)
        // Certain: nothing is in the entry's place, and the log takes no entry of a former owner.
        case .success(.deposed):
            isUncertain = false
            return hasAnswered ? resolve(false) : end(.refused)
        case .success(.elsewhere):
            // A log that lost its end may get it back from others that ask again, as long as its log metadata stands;
            // the follower must see to that.
            isUncertain = true
            phase = .catchingUp(then: draft)
            return .catchUp
        case .failure(.notDone), .failure(.unreadable): return again(draft, now)
        case .failure(.unknown):
            isUncertain = true
            return again(draft, now)
        }
    }

    package mutating func pauseEnded(now: Duration) -> Action? {
        guard case .pausing(let draft) = phase else { return nil }
        guard let draft else {
            phase = .catchingUp(then: nil)
            return .catchUp
        }
        if now >= began + limits.giveUp { return resolve(nil) }
        phase = .appending(draft)
        return .append(draft)
    }

    /// The replica is at a sequence of an epoch.
    package mutating func applied(_ sequence: CommitSequence, of epoch: Epoch, now: Duration) -> Action? {
        guard case .applying(let draft) = phase else { return nil }
        // It was in a history that ended before it came here.
        guard epoch == draft.logMetadata.epoch else {
            guard isLate(now) else { return nil }
            if hasAnswered { return resolve(nil) }
            hasAnswered = true
            return .answer(.unknown)
        }
        guard sequence >= draft.entry.sequence else { return nil }
        return hasAnswered ? resolve(true) : end(.committed(draft.entry.sequence))
    }

    /// The log has another history: nothing more is learnt of this publish here.
    package mutating func historyEnded() -> Action? {
        if case .ended = phase { return nil }
        if hasAnswered { return resolve(nil) }
        return answerInDoubt()
    }

    /// The publisher must have an answer now.
    package mutating func deadlinePassed(now: Duration) -> Action? {
        if case .ended = phase { return nil }
        guard !hasAnswered else { return nil }
        return answerInDoubt()
    }

    /// Answers with what is certain while the log has said nothing.
    private mutating func answerInDoubt() -> Action {
        switch phase {
        // The draft is in the log, or on its way there.
        case .applying, .appending: break
        case _ where isUncertain: break
        default: return end(.notCommitted)
        }
        hasAnswered = true
        return .answer(.unknown)
    }

    private func isLate(_ now: Duration) -> Bool { now >= deadline }

    private mutating func landed(_ draft: Draft) -> Action {
        if hasAnswered { return resolve(true) }
        phase = .applying(draft)
        return .offer(draft.entry)
    }

    /// Begins again with a draft that is certainly not in the log and never will be.
    private mutating func startOver(_ now: Duration, _ chance: inout some RandomNumberGenerator) -> Action {
        isUncertain = false
        if hasAnswered { return resolve(false) }
        losses += 1
        // The winner's entry is on its way here. After more losses a random pause ends the race.
        guard losses >= 3 else {
            phase = .catchingUp(then: nil)
            return .catchUp
        }
        return pause(limits.lostPause * Double.random(in: 0...1, using: &chance), then: nil)
    }

    private mutating func again(_ draft: Draft, _ now: Duration) -> Action {
        // No call can have had an effect, so the answer is certain.
        if !isUncertain, isLate(now) { return hasAnswered ? resolve(false) : end(.notCommitted) }
        return pause(againPause, then: draft)
    }

    private var againPause: Duration { hasAnswered ? limits.laterPause : limits.retryPause }

    private mutating func pause(_ time: Duration, then draft: Draft?) -> Action {
        phase = .pausing(then: draft)
        return .pause(time)
    }

    private mutating func end(_ answer: Answer) -> Action {
        phase = .ended
        return .answer(answer)
    }

    private mutating func resolve(_ isCommitted: Bool?) -> Action {
        phase = .ended
        return .resolve(isCommitted)
    }
}
