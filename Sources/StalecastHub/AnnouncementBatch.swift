package import StalecastWire

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
