package import StalecastStore
package import StalecastWire

/// Versions of a scope as webhooks are told of them. A webhook is one client, which hears of a release with its last
/// stage: of a release that ended before that it never hears, also when it catches up from the store.
package enum WebhookHistory {
    /// Puts versions that were released in stages where their last stage was told, and leaves out those of which some
    /// clients were never told. The version after such a one says the keys of both.
    ///
    /// - Parameters:
    ///   - changes: as they are stored, oldest first.
    ///   - releases: all that are kept of the scope.
    package static func told(_ changes: [TemplateChange], _ releases: [Release]) -> [TemplateChange] {
        let byVersion = Dictionary(releases.map { ($0.version, $0) }) { first, _ in first }
        var told: [TemplateChange] = []
        var untold: TemplateChange?
        for change in changes {
            let release = byVersion[change.version]
            guard release?.isWhole ?? true else {
                untold = change
                continue
            }
            let whole = untold.map(change.over) ?? change
            told.append(release?.reached.last.map { whole.at($0.sequence) } ?? whole)
            untold = nil
        }
        return told
    }

    /// Returns the changes after a sequence as webhooks are told of them, oldest first, at most `limit`. None means the
    /// end of the history.
    ///
    /// - Parameter read: the stored changes after a sequence, oldest first, at most so many.
    package static func page(
        after sequence: CommitSequence, limit: Int, _ releases: [Release],
        read: (CommitSequence, Int) throws -> [TemplateChange]
    ) rethrows -> [TemplateChange] {
        var rows = try read(sequence, limit)
        // The version just before may have been told later than it was committed, or leave its keys to the first row.
        let earlier = releases.filter { $0.reached.first.map { $0.sequence <= sequence } ?? false }
        if let before = earlier.max(by: { $0.version < $1.version }), let first = before.reached.first {
            let isToldLater = before.isWhole && before.reached.last.map { $0.sequence > sequence } ?? false
            let leavesKeys = !before.isWhole && before.successor != nil && before.successor == rows.first?.version
            if isToldLater || leavesKeys { rows = try read(first.sequence - 1, 1) + rows }
        }
        while true {
            let told = told(rows, releases).filter { $0.sequence > sequence }
            guard told.isEmpty, let last = rows.last else { return Array(told.prefix(limit)) }
            // All were passed over.
            let next = try read(last.sequence, limit)
            if next.isEmpty { return [] }
            rows = [last] + next
        }
    }
}

extension TemplateStore {
    /// The newest changes of a scope as webhooks are told of them, oldest first. Blocks.
    func webhookChanges(of scope: Scope, limit: Int) throws -> [TemplateChange] {
        WebhookHistory.told(try recentChanges(of: scope, limit: limit), try recentReleases(of: scope))
    }

    /// The changes after a sequence as webhooks are told of them, oldest first, at most `limit`. Blocks.
    func webhookChanges(of scope: Scope, after sequence: CommitSequence, limit: Int) throws -> [TemplateChange] {
        try WebhookHistory.page(after: sequence, limit: limit, try recentReleases(of: scope)) { after, limit in
            try changes(of: scope, after: after, limit: limit)
        }
    }
}
