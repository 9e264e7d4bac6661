package import StalecastWire

/// One message a subscriber is owed: the newest of a topic, seen from the version the subscriber holds.
package struct Debt: Sendable, Hashable {
    package let topic: Topic.Index
    package let sequence: CommitSequence
    /// Version that the subscriber holds; nil when unknown.
    package let since: VersionNumber?
}

extension TopicBoard {
    /// The newest message of each of `topics` whose sequence is beyond `sequence`, in cursor order.
    package func owed(to topics: some Sequence<Topic.Index>, after sequence: CommitSequence) -> [Debt] {
        debts(of: topics) {
            $0.sequence > sequence
        } since: {
            histories[$0.scope]?.version(at: sequence, below: $0.version)
        }
    }

    /// The newest message of each topic that announced a version newer than `version`, in cursor order.
    package func owed(to topics: some Sequence<Topic.Index>, have version: VersionNumber) -> [Debt] {
        debts(of: topics) {
            $0.version > version
        } since: { _ in
            version
        }
    }

    /// The newest message of every topic, for a client whose knowledge is void.
    package func newest(of topics: some Sequence<Topic.Index>) -> [Debt] {
        debts(of: topics) { _ in
            true
        } since: { _ in
            nil
        }
    }

    private func debts(
        of topics: some Sequence<Topic.Index>, where isOwed: (TemplateChange) -> Bool,
        since: (TemplateChange) -> VersionNumber?
    ) -> [Debt] {
        var debts: [Debt] = []
        for topic in topics {
            guard let change = self[topic].latest, isOwed(change) else { continue }
            debts.append(Debt(topic: topic, sequence: change.sequence, since: since(change)))
        }
        if debts.count > 1 { debts.sort { $0.sequence < $1.sequence } }
        return debts
    }

    /// The message of a debt incurred on this state of the board.
    func message(for debt: Debt) -> StaleMessage {
        let topic = self[debt.topic]
        guard let change = topic.latest else { preconditionFailure("a debt outlived its board") }
        let keys = debt.since.flatMap { histories[change.scope]?.changedKeys(since: $0, through: change.version) }
        // The herd window was set for every client that has to fetch this version.
        let asked = topic.encodedMessage?.message
        return StaleMessage(
            topic: topic.name, change: change, since: debt.since, changedKeys: topic.own(keys),
            fetchWindowMs: asked?.fetchWindowMs ?? 0, reportRatio: asked?.reportRatio ?? 1)
    }
}

/// The encoded messages of recent debts, so that a storm of clients that are equally far behind costs one encoding.
package struct EncodedMessageCache {
    /// Beyond this many different debts the cache starts over.
    private static let capacity = 1024

    private var encodedMessages: [Debt: EncodedMessage] = [:]

    package init() {}

    package mutating func encodedMessage(for debt: Debt, on board: TopicBoard) -> EncodedMessage {
        if let live = board[debt.topic].encodedMessage, live.message.since == debt.since { return live }
        if let known = encodedMessages[debt] { return known }
        if encodedMessages.count >= Self.capacity { encodedMessages.removeAll(keepingCapacity: true) }
        let encodedMessage = EncodedMessage(
            board.message(for: debt), epoch: board.epoch, isInvalidation: board[debt.topic].isInvalidation)
        encodedMessages[debt] = encodedMessage
        return encodedMessage
    }

    /// Forgets everything: bindings changed, so that a topic means something else.
    package mutating func removeAll() { encodedMessages.removeAll() }
}

/// Position that a subscriber reports.
package struct ResumePoint: Sendable, Hashable {
    /// The text of `Last-Event-ID` or of the cursor parameter; nil or empty when the client has none.
    package var cursor: String?
    /// The version the client holds; nil when it did not say.
    package var have: VersionNumber?

    package init(cursor: String? = nil, have: VersionNumber? = nil) {
        self.cursor = cursor.flatMap { $0.isEmpty ? nil : $0 }
        self.have = have
    }
}

/// Messages that a subscriber is owed at the moment it subscribes.
package struct Opening: Sendable {
    /// The client must forget what it thinks it knows; `messages` then has the newest of every topic.
    package let reset: ResetReason?
    /// Messages in cursor order, at most one per topic and scope.
    package let messages: [Debt]
    /// Everything up to here is covered by `messages`.
    package let head: Cursor

    /// Reason why a cursor cannot be used; raw values are on the wire.
    package enum ResetReason: String, Sendable {
        case malformed
        case unknownEpoch = "unknown-epoch"
        case futureCursor = "future-cursor"
    }
}

extension TopicBoard {
    /// Decides what a subscriber of `topics` is owed, by comparing state. A cursor wins over `have`.
    package func opening(for topics: some Sequence<Topic.Index>, from point: ResumePoint) -> Opening {
        guard let text = point.cursor else {
            let messages = point.have.map { owed(to: topics, have: $0) } ?? []
            return Opening(reset: nil, messages: messages, head: head)
        }
        guard let cursor = Cursor(text) else { return void(.malformed, topics) }
        guard cursor.epoch == epoch else { return void(.unknownEpoch, topics) }
        guard cursor.sequence <= headSequence else { return void(.futureCursor, topics) }
        return Opening(reset: nil, messages: owed(to: topics, after: cursor.sequence), head: head)
    }

    private func void(_ reason: Opening.ResetReason, _ topics: some Sequence<Topic.Index>) -> Opening {
        Opening(reset: reason, messages: newest(of: topics), head: head)
    }
}

/// Announcements that came while a shard was busy, reduced to the newest of each topic.
package struct AnnouncementBatch: Sendable {
    /// The head before the first of them.
    package let before: CommitSequence
    /// Announcements in cursor order; each with those of its messages that no later one of the batch replaces.
    package let announcements: [TopicBoard.Announcement]
    /// The topics of the messages left out, one entry each.
    package let skipped: [Topic.Index]
}

extension TopicBoard {
    /// Applies announcements in order and leaves only what is worth sending: of several messages of one topic the last
    /// one, as seen from the version before all of them.
    package mutating func apply(_ run: [TopicBoard.Announcement], cache: inout EncodedMessageCache) -> AnnouncementBatch
    {
        let before = headSequence
        for announcement in run { apply(announcement) }
        guard run.count > 1 else { return AnnouncementBatch(before: before, announcements: run, skipped: []) }
        var skipped: [Topic.Index] = []
        var kept: [TopicBoard.Announcement] = []
        for announcement in run {
            var encodedMessages: [(topic: Topic.Index, encodedMessage: EncodedMessage)] = []
            for (topic, encodedMessage) in announcement.encodedMessages {
                if self[topic].latest?.sequence == announcement.change.sequence {
                    encodedMessages.append(
                        (topic, self.encodedMessage(topic, encodedMessage, heldBefore: before, &cache)))
                } else {
                    skipped.append(topic)
                }
            }
            guard !encodedMessages.isEmpty else { continue }
            kept.append(
                TopicBoard.Announcement(
                    change: announcement.change, audience: announcement.audience, encodedMessages: encodedMessages,
                    pacedOverMs: announcement.pacedOverMs,
                    announcedAt: announcement.announcedAt))
        }
        return AnnouncementBatch(before: before, announcements: kept, skipped: skipped)
    }

    /// The message as a subscriber must see it that holds what was in force at `sequence`.
    private func encodedMessage(
        _ topic: Topic.Index, _ live: EncodedMessage, heldBefore sequence: CommitSequence,
        _ cache: inout EncodedMessageCache
    ) -> EncodedMessage {
        let held = histories[live.message.change.scope]?.version(
            at: sequence, below: live.message.change.version)
        if let held, let since = live.message.since, since <= held { return live }
        return cache.encodedMessage(for: Debt(topic: topic, sequence: live.sequence, since: held), on: self)
    }
}
