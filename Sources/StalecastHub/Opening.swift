package import StalecastWire

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
