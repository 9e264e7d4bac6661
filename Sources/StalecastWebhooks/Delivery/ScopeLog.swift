import StalecastWire

/// The newest changes of one scope, oldest first.
struct ScopeLog {
    /// Older ones are read from the store when somebody is owed them.
    static let capacity = 300

    private(set) var changes: [TemplateChange] = []

    var newest: TemplateChange? { changes.last }

    mutating func append(_ change: TemplateChange) {
        guard change.sequence > newest?.sequence ?? 0 else { return }
        if changes.count >= 2 * Self.capacity { changes.removeFirst(Self.capacity) }
        changes.append(change)
    }

    /// The change after `sequence`, and those after it; nil when some of them may be forgotten.
    func changes(after sequence: CommitSequence) -> ArraySlice<TemplateChange>? {
        guard let first = changes.first, first.version == 1 || first.sequence <= sequence else {
            return changes.isEmpty ? [] : nil
        }
        return changes[(changes.lastIndex { $0.sequence <= sequence }.map { $0 + 1 } ?? changes.startIndex)...]
    }

    /// What a message about `change` says to somebody who has `since`: how many versions it stands for besides its
    /// own, and the union of their changed keys, nil when one of them is unknown.
    func folded(since: VersionNumber?, into change: TemplateChange) -> (coalesced: Int, keys: [String]?) {
        guard let since, since < change.version - 1 else { return (0, change.changedKeys) }
        let coalesced = Int(change.version - since - 1)
        let span = changes.filter { $0.version > since && $0.version <= change.version }
        guard span.count == coalesced + 1 else { return (coalesced, nil) }
        var union: Set<String> = []
        for step in span {
            guard let keys = step.changedKeys else { return (coalesced, nil) }
            union.formUnion(keys)
        }
        return (coalesced, union.count <= StaleMessage.maxChangedKeys ? union.sorted() : nil)
    }
}
