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
