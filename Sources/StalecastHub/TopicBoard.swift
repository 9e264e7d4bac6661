package import StalecastWire

/// A committed change and the messages it makes, encoded: what the hub hands to every shard.
package struct Announcement: Sendable {
    package let change: TemplateChange
    package let notices: [(topic: TopicIndex, line: Int, notice: Notice)]
    /// When the change was announced, in nanoseconds of the monotonic clock; for the publish-to-written histogram.
    package let announcedAt: UInt64
}

/// What every topic announced last. The hub owns one; each shard has its own copy and applies announcements in
/// order, so that a shard's subscribers see one consistent history without a lock.
package struct TopicBoard: Sendable {
    package let epoch: Epoch
    /// The last sequence applied.
    package private(set) var headSequence: CommitSequence
    package private(set) var topics: [Topic] = []
    private var indexes: [TopicName: TopicIndex] = [:]
    private(set) var histories: [Scope: ScopeHistory] = [:]

    /// - Parameters:
    ///   - head: the store's sequence at start.
    ///   - changes: the stored versions of all scopes, oldest first within a scope.
    package init(epoch: Epoch, head: CommitSequence, bindings: [TopicBinding], changes: [TemplateChange]) {
        self.epoch = epoch
        headSequence = head
        for change in changes { histories[change.scope, default: ScopeHistory()].append(change) }
        rebind(bindings, changes: changes)
    }

    /// The same state in memory of its own, for another thread to change: the first announcement then copies nothing,
    /// and no two threads ever meet in one buffer.
    package var unshared: TopicBoard {
        var copy = self
        copy.topics = topics.map { topic in
            var topic = topic
            topic.lines = topic.lines.map { $0 }
            return topic
        }
        copy.histories = histories.mapValues(\.unshared)
        return copy
    }

    package var head: Cursor { Cursor(epoch: epoch, sequence: headSequence) }

    package subscript(_ index: TopicIndex) -> Topic { topics[Int(index.rawValue)] }

    /// The topic of this name; nil when there is none or it was taken away.
    package func index(of name: TopicName) -> TopicIndex? {
        guard let index = indexes[name], !self[index].isRetired else { return nil }
        return index
    }

    /// Names of the topics that can be subscribed to, sorted.
    package var names: [TopicName] {
        topics.filter { !$0.isRetired && !$0.binding.isInvalidation }.map(\.name).sorted()
    }

    /// Replaces the bindings; topics keep their index, those not named are retired.
    package mutating func rebind(_ bindings: [TopicBinding], changes: [TemplateChange]) {
        for index in topics.indices { topics[index].isRetired = true }
        for binding in bindings {
            let lines = binding.scopes.map { Topic.Line(scope: $0, latest: Self.lastHeard(binding, $0, changes)) }
            let topic = Topic(binding: binding, lines: lines)
            if let index = indexes[binding.name] {
                topics[Int(index.rawValue)] = topic
            } else {
                indexes[binding.name] = TopicIndex(topics.count)
                topics.append(topic)
            }
        }
    }

    /// The last stored change a topic would have announced. Without one, and with older versions gone, the oldest
    /// stored change stands in: better one message too many than one too few.
    private static func lastHeard(
        _ binding: TopicBinding, _ scope: Scope, _ changes: [TemplateChange]
    ) -> TemplateChange? {
        let ofScope = changes.filter { $0.scope == scope }
        if let heard = ofScope.last(where: binding.hears) { return heard }
        guard let oldest = ofScope.first, oldest.version > 1 else { return nil }
        return oldest
    }

    /// Makes and encodes the messages of a change, without applying them.
    package func announcement(of change: TemplateChange, fetchWindowMs: Int, at time: UInt64) -> Announcement {
        var notices: [(TopicIndex, Int, Notice)] = []
        for (index, topic) in topics.enumerated() where !topic.isRetired && topic.binding.hears(change) {
            guard let line = topic.lines.firstIndex(where: { $0.scope == change.scope }) else { continue }
            let since = topic.lines[line].latest?.version ?? 0
            var keys = change.changedKeys
            if since != change.version - 1 { keys = unionKeys(since: since, with: change) }
            let message = StaleMessage(
                topic: topic.name, change: change, since: since, changedKeys: keys, fetchWindowMs: fetchWindowMs)
            let notice = Notice(message, epoch: epoch, isInvalidation: topic.binding.isInvalidation)
            notices.append((TopicIndex(index), line, notice))
        }
        return Announcement(change: change, notices: notices, announcedAt: time)
    }

    private func unionKeys(since: VersionNumber, with change: TemplateChange) -> [String]? {
        guard let own = change.changedKeys else { return nil }
        let before = histories[change.scope]?.changedKeys(since: since, through: change.version - 1)
        return before.map { Set($0).union(own).sorted() }
    }

    /// Takes an announcement into the state.
    package mutating func apply(_ announcement: Announcement) {
        let change = announcement.change
        headSequence = change.sequence
        histories[change.scope, default: ScopeHistory()].append(change)
        for (topic, line, notice) in announcement.notices {
            topics[Int(topic.rawValue)].lines[line].latest = change
            topics[Int(topic.rawValue)].lines[line].notice = notice
        }
    }
}
