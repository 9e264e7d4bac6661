package import StalecastWire

/// Releases in stages. While a scope is split, each of its topics has one hidden topic for each stage, and subscribers
/// are members of the one that their client's key leads to. A stage is announced on its hidden topics alone, so that
/// fan-outs, backlogs, polls and resumes know nothing of stages. A split stays until the next release: clients of one
/// stage were told at another sequence than those of the next.
extension TopicBoard {
    struct Split: Sendable {
        let cut: ReleaseCut
        /// The change that stages were told of last; nil before the first stage.
        var told: TemplateChange?
        /// Sequence at which each stage was told, by stage; nil: it was not.
        var sequences: [CommitSequence?]

        init(_ cut: ReleaseCut) {
            self.cut = cut
            sequences = Array(repeating: nil, count: cut.bounds.count)
        }

        /// Whether only some stages were told of the version before a change.
        func isPartial(before change: TemplateChange) -> Bool {
            told.map { $0.version < change.version } ?? false && sequences.contains(nil)
        }

        /// The newest change that a topic's subscribers of a stage were told of.
        func latest(_ topic: Topic, stage: Int, of history: History) -> TemplateChange? {
            guard let told, let sequence = sequences[stage] else {
                return topic.lastHeard(of: history.changes.filter { $0.version < cut.version })
            }
            let heard = topic.lastHeard(of: history.changes.filter { $0.version <= told.version })
            return heard?.version == told.version ? heard?.at(sequence) : heard
        }
    }

    /// The topic whose messages a client hears: that of its stage, where the scope is split.
    ///
    /// - Parameter topic: any topic of a name in a scope, also another stage's.
    package func seat(of topic: Topic.Index, for key: ClientKey) -> Topic.Index {
        let base = self[topic].base ?? topic
        guard let split = splits[self[base].scope], let stages = stageTopics[base] else { return base }
        return stages[split.cut.stage(of: key)]
    }

    /// Version whose release split a scope last; nil for none since the start.
    package func versionOfSplit(of scope: Scope) -> VersionNumber? { splits[scope]?.cut.version }

    package func seats(of topics: [Topic.Index], for key: ClientKey) -> [Topic.Index] {
        isSplit ? topics.map { seat(of: $0, for: key) } : topics
    }

    /// False until the first release, since the start or since a restart: topics then are seats.
    package var isSplit: Bool { !splits.isEmpty }

    /// Every topic that has members of a name in a project: the named ones, and those of stages.
    package func audience(_ name: TopicName, in project: ProjectID) -> [Topic.Index] {
        Array(withStages(topics(name, in: project)))
    }

    package func withStages(_ topics: [Topic.Index]) -> Set<Topic.Index> {
        Set(topics.flatMap { [$0] + (stageTopics[$0] ?? []) })
    }

    /// A scope's topics of all kinds, also those that a former split left.
    package func seats(of scope: Scope) -> [Topic.Index] {
        own[scope] ?? []
    }

    /// Splits a scope again; all its stages hold what their topics announced last.
    mutating func split(_ scope: Scope, by cut: ReleaseCut) {
        splits[scope] = Split(cut)
        seatStages(of: scope) { topic, _, _ in (topic.latest, topic.encodedMessage) }
    }

    /// Splits a scope as it was before a restart.
    ///
    /// - Parameters:
    ///   - told: the change that stages were told of; its history has to be here.
    ///   - sequences: when each stage was told, by stage.
    package mutating func restore(
        _ cut: ReleaseCut, of scope: Scope, told: TemplateChange, sequences: [CommitSequence?], isWhole: Bool
    ) {
        var split = Split(cut)
        split.told = told
        for (stage, sequence) in sequences.enumerated().prefix(cut.bounds.count) { split.sequences[stage] = sequence }
        splits[scope] = split
        let history = histories[scope] ?? History([])
        seatStages(of: scope) { topic, stage, _ in (split.latest(topic, stage: stage, of: history), nil) }
        guard !isWhole else { return }
        for index in own[scope] ?? [] where self[index].base == nil {
            let heard = self[index].lastHeard(of: history.changes.filter { $0.version < cut.version })
            topics[Int(index.rawValue)].latest = heard
        }
    }

    /// Seats the stages of topics that changed in a reload, with the messages that they would have got.
    mutating func reseatStages(before: [Topic]) {
        for (scope, split) in splits {
            let history = histories[scope] ?? History([])
            seatStages(of: scope, before: before) { topic, stage, former in
                if let former, !former.isRetired, former.keys == topic.keys {
                    return (former.latest, former.encodedMessage)
                }
                return (split.latest(topic, stage: stage, of: history), nil)
            }
        }
    }

    /// Makes the hidden topics of a scope's live topics, at the places of a former split where there are any.
    ///
    /// - Parameter heard: what a topic's stage holds; its last argument is what was at the place in `before`.
    private mutating func seatStages(
        of scope: Scope, before: [Topic] = [], heard: (Topic, Int, Topic?) -> (TemplateChange?, EncodedMessage?)
    ) {
        guard let count = splits[scope]?.cut.bounds.count else { return }
        let own = self.own[scope] ?? []
        for index in own where self[index].base != nil { topics[Int(index.rawValue)].isRetired = true }
        for base in own {
            let topic = self[base]
            guard topic.base == nil, !topic.isRetired else { continue }
            var seats = stageTopics[base] ?? []
            for stage in 0..<count {
                var seat = topic
                seat.base = base
                seat.stage = stage
                let place = stage < seats.count ? Int(seats[stage].rawValue) : topics.count
                (seat.latest, seat.encodedMessage) = heard(topic, stage, place < before.count ? before[place] : nil)
                if place < topics.count {
                    topics[place] = seat
                } else {
                    seats.append(add(seat))
                }
            }
            stageTopics[base] = seats
        }
    }

    /// Whether a topic announces a change. Clients that were not told of the release before it lack the keys of that
    /// too.
    func hears(_ topic: Topic, _ change: TemplateChange) -> Bool {
        if topic.keys.hear(change) { return true }
        guard splits[change.scope]?.isPartial(before: change) == true, let latest = topic.latest,
            let history = histories[change.scope]
        else { return false }
        return topic.keys.hear(
            TemplateChange(
                scope: change.scope, sequence: change.sequence, metadata: change.metadata, etag: change.etag,
                changedKeys: history.changedKeys(since: latest.version, through: change.version - 1)))
    }

    func concerns(_ topic: Topic, _ audience: ReleaseAudience?) -> Bool {
        guard let audience else { return true }
        return topic.stage.map(audience.stages.contains) ?? audience.isWhole
    }

    mutating func noteStages(_ announcement: Announcement) {
        let scope = announcement.change.scope
        guard var split = splits[scope] else { return }
        split.told = announcement.change
        for stage in split.sequences.indices where announcement.audience?.stages.contains(stage) ?? true {
            split.sequences[stage] = announcement.change.sequence
        }
        splits[scope] = split
    }
}
