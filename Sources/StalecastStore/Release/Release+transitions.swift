package import StalecastWire

extension Release {
    /// Sentence that says where a release stands and what can be done.
    package struct Refusal: Error, Sendable, Hashable, CustomStringConvertible {
        package let state: State
        package let description: String
    }

    /// Tells the first stage.
    package mutating func begin(
        sequence: CommitSequence, at now: Timestamp, by author: String = schedule
    ) throws(Refusal) {
        try require([.pending])
        try reach(policy.stages[0], sequence, at: now)
        note(.began, at: now, by: author)
    }

    /// Tells the next stage, also when it is paused, and goes on from there; after the last one it bakes, or is
    /// released.
    package mutating func advance(
        sequence: CommitSequence, at now: Timestamp, by author: String, reason: String? = nil,
        figures: JSONValue? = nil
    ) throws(Refusal) {
        try require([.ramping, .paused])
        guard let stage = policy.stages.first(where: { $0 > told }) else { throw refusal() }
        try reach(stage, sequence, at: now)
        note(.advanced, at: now, by: author, reason, figures)
    }

    /// Tells all clients at once, also when it is paused.
    package mutating func promote(
        sequence: CommitSequence, at now: Timestamp, by author: String, reason: String? = nil
    ) throws(Refusal) {
        try require([.pending, .ramping, .paused])
        if told == Percentage.whole { throw refusal() }
        try reach(Percentage.whole, sequence, at: now)
        note(.promoted, at: now, by: author, reason)
    }

    /// Keeps it where it is until an operator decides.
    package mutating func pause(
        at now: Timestamp, by author: String, reason: String? = nil, figures: JSONValue? = nil
    ) throws(Refusal) {
        try require([.pending, .ramping, .baking])
        state = .paused
        note(.paused, at: now, by: author, reason, figures)
    }

    /// Goes on; the time of the stage starts over.
    package mutating func resume(at now: Timestamp, by author: String, reason: String? = nil) throws(Refusal) {
        try require([.paused])
        // The share that was told says in which state it was paused.
        state = told == 0 ? .pending : told < Percentage.whole ? .ramping : .baking
        since = told == 0 ? nil : now
        note(.resumed, at: now, by: author, reason)
    }

    /// Ends the bake time.
    package mutating func finish(at now: Timestamp, by author: String = schedule) throws(Refusal) {
        try require([.baking])
        state = .released
        note(.released, at: now, by: author)
    }

    /// Takes the version back from the told clients.
    ///
    /// - Parameter version: the new version that has the base's content.
    package mutating func rollBack(
        to version: VersionNumber, at now: Timestamp, by author: String, reason: String? = nil,
        figures: JSONValue? = nil
    ) throws(Refusal) {
        try end(.rolledBack, version)
        note(.rolledBack, at: now, by: author, reason, figures)
    }

    /// Gives way to another version.
    package mutating func supersede(
        by version: VersionNumber, at now: Timestamp, by author: String, reason: String? = nil
    ) throws(Refusal) {
        try end(.superseded, version)
        note(.superseded, at: now, by: author, reason)
    }

    private mutating func reach(_ stage: Int, _ sequence: CommitSequence, at now: Timestamp) throws(Refusal) {
        if let last = reached.last?.sequence, sequence <= last {
            throw Refusal(
                state: state,
                description:
                    "sequence \(sequence) is not after \(last), which told the stage before; nothing was changed")
        }
        reached.append(Reached(stage: stage, sequence: sequence, at: now))
        since = now
        state = stage < Percentage.whole ? .ramping : policy.bake > .zero ? .baking : .released
    }

    private mutating func end(_ state: State, _ version: VersionNumber) throws(Refusal) {
        guard isOpen else { throw refusal() }
        guard version > self.version else {
            throw Refusal(
                state: self.state,
                description: "version \(version) cannot follow version \(self.version); nothing was changed")
        }
        self.state = state
        successor = version
    }

    private mutating func note(
        _ kind: Event.Kind, at now: Timestamp, by author: String, _ reason: String? = nil, _ figures: JSONValue? = nil
    ) {
        if events.count >= Self.maxEvents { events.removeFirst(events.count - Self.maxEvents + 1) }
        let text = reason.map { String(String.UnicodeScalarView($0.unicodeScalars.prefix(Self.maxReason))) }
        events.append(
            Event(
                at: now, by: author, kind: kind, stage: told, reason: text?.isEmpty == true ? nil : text,
                figures: figures))
    }

    private func require(_ states: [State]) throws(Refusal) {
        guard states.contains(state) else { throw refusal() }
    }

    private func refusal() -> Refusal {
        Refusal(state: state, description: "the release of version \(version) \(situation)")
    }

    private var situation: String {
        let other = successor.map { "version \($0)" } ?? "another version"
        return switch state {
        case .pending: "has not begun; begin, pause, promote or roll it back"
        case .ramping: "is at \(Percentage.text(told)); advance, pause, promote or roll it back"
        case .paused where told == Percentage.whole: "is paused at 100%; resume or roll it back"
        case .paused: "is paused at \(Percentage.text(told)); resume, advance, promote or roll it back"
        case .baking: "is at 100% in its bake time; wait for its end, pause or roll it back"
        case .released: "is over, and every client has it; publish or roll back as usual"
        case .rolledBack: "is over: \(other) rolled it back; publish anew"
        case .superseded: "is over: \(other) superseded it; see the release of that one"
        }
    }
}
