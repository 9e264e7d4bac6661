import StalecastHub
package import StalecastWire

extension ScopeLog {
    /// A version of a scope and where it stands in the store's order.
    package struct Place: Sendable, Hashable {
        package var version: VersionNumber
        package var sequence: CommitSequence

        package static let start = ScopeLog.Place(version: 0, sequence: 0)

        package init(version: VersionNumber, sequence: CommitSequence) {
            self.version = version
            self.sequence = sequence
        }

        package init(_ change: TemplateChange) { self.init(version: change.version, sequence: change.sequence) }

        /// Just before `change`, whatever came before it.
        package init(before change: TemplateChange) {
            self.init(version: change.version - 1, sequence: change.sequence - 1)
        }
    }
}

/// The newest changes of one scope, oldest first.
package struct ScopeLog: Sendable {
    /// Older ones are read from the store when a webhook is owed them.
    static let capacity = 300

    /// A change and when it was announced, by the monotonic clock; 0 for one of a former run.
    typealias Entry = (change: TemplateChange, announcedAt: UInt64)

    private(set) var entries: [Entry] = []
    /// Every change after this one is among ``entries``; the store may have some up to it.
    private(set) var startsAfter: CommitSequence = 0
    /// The version that only some stages of its release were told of: no webhook was.
    private var untold: TemplateChange?

    var newest: TemplateChange? { entries.last?.change }
    /// Position of a lane that wants only what comes from now on.
    var end: ScopeLog.Place { newest.map { ScopeLog.Place($0) } ?? .start }

    /// Takes a change that the store holds at the start; called oldest first, older ones perhaps left out.
    mutating func know(_ change: TemplateChange) {
        if entries.isEmpty, change.version > 1 { startsAfter = change.sequence - 1 }
        append(change, at: 0)
    }

    mutating func pass(over change: TemplateChange) { untold = change }

    /// - Returns: the change as webhooks are told of it.
    @discardableResult
    mutating func append(_ change: TemplateChange, at time: UInt64) -> TemplateChange {
        guard change.sequence > newest?.sequence ?? 0 else { return change }
        let untold = untold.flatMap { $0.version < change.version ? $0 : nil }
        let change = untold.map(change.over) ?? change
        self.untold = nil
        if entries.count >= 2 * Self.capacity {
            startsAfter = entries[Self.capacity - 1].change.sequence
            entries.removeFirst(Self.capacity)
        }
        entries.append((change, time))
        return change
    }

    /// Position of a lane that wants what comes after `sequence`; nil when that is no longer known.
    func place(after sequence: CommitSequence) -> ScopeLog.Place? {
        guard sequence >= startsAfter else { return nil }
        if let next = first(after: sequence) { return ScopeLog.Place(before: next.change) }
        return ScopeLog.Place(version: end.version, sequence: max(sequence, end.sequence))
    }

    /// The first change after `sequence` that is known.
    func first(after sequence: CommitSequence) -> Entry? {
        // Nearly every reader asks for the last one, or what follows it.
        guard let last = entries.last, last.change.sequence > sequence else { return nil }
        if entries.count == 1 || entries[entries.count - 2].change.sequence <= sequence { return last }
        return entries[index(after: sequence)]
    }

    private func index(after sequence: CommitSequence) -> Int {
        entries.prefixCount(while: { $0.change.sequence <= sequence })
    }

    // MARK: With what was read from the store

    /// Stored changes: all there are after one sequence through another.
    struct Page: Sendable {
        let after: CommitSequence
        let through: CommitSequence
        let changes: [TemplateChange]
    }

    enum Known {
        case change(TemplateChange, announcedAt: UInt64)
        /// No change follows.
        case end
        /// Only the store can tell.
        case unread
    }

    /// Changes after `sequence`, as far as log and page show them.
    func known(after sequence: CommitSequence, _ page: Page?) -> Known {
        var sequence = sequence
        if sequence < startsAfter {
            guard let page, sequence >= page.after, sequence < page.through else { return .unread }
            if let change = page.changes.first(where: { $0.sequence > sequence }) {
                return .change(change, announcedAt: 0)
            }
            sequence = page.through
            if sequence < startsAfter { return .unread }
        }
        return first(after: sequence).map { .change($0.change, announcedAt: $0.announcedAt) } ?? .end
    }

    // MARK: What a message says

    /// Folds what a message about `change` says to a reader that has `since`: the number of versions it stands for
    /// besides its own, and the union of their changed keys, nil when one of them is unknown.
    ///
    /// - Parameter own: the topic's own part of a list of keys. It is applied before the limit on the union: names of
    ///   other topics must neither be told nor fill the list.
    func folded(
        since: ScopeLog.Place, into change: TemplateChange, own: ([String]?) -> [String]? = { $0 }
    ) -> (coalesced: Int, keys: [String]?) {
        let first = index(after: since.sequence)
        let end = index(after: change.sequence)
        guard startsAfter <= since.sequence, first < end else {
            // An origin's numbers may leap; there are no more versions than commits.
            let most = min(change.version - since.version, Int64(clamping: change.sequence - since.sequence))
            return (max(0, Int(most) - 1), most == 1 ? own(change.changedKeys) : nil)
        }
        var union: Set<String> = []
        for entry in entries[first..<end] {
            guard let keys = own(entry.change.changedKeys) else { return (end - first - 1, nil) }
            union.formUnion(keys)
        }
        if end - first == 1 { return (0, own(change.changedKeys)) }
        return (end - first - 1, union.count <= StaleMessage.maxChangedKeys ? union.sorted() : nil)
    }
}

extension ScopeLog {
    /// Topics that a webhook hears, as the configuration binds them.
    package struct Interest {
        let topics: [TopicName]
        let routes: [TopicName: TopicBinding]

        /// The topic that announces the change to it; nil when none does.
        func topic(of change: TemplateChange) -> TopicName? {
            topics.first { name in
                routes[name].map { $0.scopes.contains(change.scope) && $0.hears(change) } ?? false
            }
        }

        /// - Returns: nil where no topic announces the change.
        func heard(_ change: TemplateChange, at time: UInt64) -> Heard? {
            topic(of: change).map { Heard(change: change, topic: $0, announcedAt: time) }
        }
    }

    /// A change as a webhook hears of it. A class: all webhooks that hear it on one topic share it, and pass it on with
    /// one reference count.
    package final class Heard: Sendable {
        package let change: TemplateChange
        package let topic: TopicName
        /// Monotonic; 0 for a change of a former run.
        package let announcedAt: UInt64

        init(change: TemplateChange, topic: TopicName, announcedAt: UInt64) {
            self.change = change
            self.topic = topic
            self.announcedAt = announcedAt
        }

        package var sequence: CommitSequence { change.sequence }
    }
}
