import StalecastWire

/// The newest changes of one scope, oldest first, to answer "what changed since version v" while that is known.
struct ScopeHistory: Sendable {
    /// As many as the store keeps by default; older ones are forgotten and their changes become "anything".
    static let capacity = 300

    private(set) var changes: [TemplateChange]

    init(_ changes: [TemplateChange]) { self.changes = changes.suffix(2 * Self.capacity).map(\.withSmallKeys) }

    /// The same in memory of its own.
    var unshared: ScopeHistory {
        var copy = self
        copy.changes = changes.map { $0 }
        return copy
    }

    mutating func append(_ change: TemplateChange) {
        if changes.count >= 2 * Self.capacity { changes.removeFirst(Self.capacity) }
        changes.append(change.withSmallKeys)
    }

    /// The version in force at `sequence`, 0 before the first; nil when that was before the oldest known change.
    func version(at sequence: CommitSequence) -> VersionNumber? {
        if let change = changes.last(where: { $0.sequence <= sequence }) { return change.version }
        return changes.first?.version == 1 ? 0 : nil
    }

    /// The union of changed keys over the versions in `(since, latest]`; nil when one of them is unknown.
    func changedKeys(since: VersionNumber, through latest: VersionNumber) -> [String]? {
        let span = changes.filter { $0.version > since && $0.version <= latest }
        // An origin's versions may skip numbers; what follows a known version is known.
        guard Int64(span.count) == latest - since || changes.contains(where: { $0.version == since }) else {
            return nil
        }
        var union: Set<String> = []
        for change in span {
            guard let keys = change.changedKeys else { return nil }
            union.formUnion(keys)
        }
        return union.count <= StaleMessage.maxChangedKeys ? union.sorted() : nil
    }
}

extension TemplateChange {
    /// The same change without a list of keys too long to be sent.
    fileprivate var withSmallKeys: TemplateChange {
        guard let changedKeys, changedKeys.count > StaleMessage.maxChangedKeys else { return self }
        return TemplateChange(
            scope: scope, sequence: sequence, metadata: metadata, etag: etag, changedKeys: nil, notes: notes)
    }
}
