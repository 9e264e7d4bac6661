package import StalecastTemplate
package import StalecastWire
import Synchronization

/// Finished answers by scope and condition outcome, for the newest version of each scope. Bounded: of one version it
/// keeps ``maxOutcomes``, of all together ``maxBytes``. The oldest version gives way first; of one version's answers the
/// one that was made first and not asked for since (second chance): answers that one client asks for and nobody else do
/// not drive out those that many do.
package final class RenderingCache: Sendable {
    fileprivate struct Entry {
        let rendering: FetchRendering
        let byteCount: Int
        /// Asked for since it was made, or since it was last spared.
        var isUsed = false

        init(_ rendering: FetchRendering, of outcome: ConditionOutcome) {
            self.rendering = rendering
            // The outcome is there twice: as key, and in the order.
            byteCount = rendering.byteCount + 2 * outcome.byteCount
        }
    }

    fileprivate struct Shelf {
        var change: CommitSequence
        var entries: [ConditionOutcome: Entry] = [:]
        /// As made, or spared; those before `oldest` are gone.
        var order: [ConditionOutcome] = []
        var oldest = 0
    }

    fileprivate struct Shelves {
        var byScope: [Scope: Shelf] = [:]
        var byteCount = 0
    }

    private let maxOutcomes: Int
    private let maxBytes: Int
    private let shelves = Mutex(Shelves())

    /// - Parameters:
    ///   - maxOutcomes: renderings of one version; default 1,024.
    ///   - maxBytes: of all renderings and their outcomes; default 64 MiB.
    package init(maxOutcomes: Int = 1024, maxBytes: Int = 64 << 20) {
        self.maxOutcomes = maxOutcomes
        self.maxBytes = maxBytes
    }

    /// Bytes held now.
    package var byteCount: Int { shelves.withLock { $0.byteCount } }
    /// Renderings held now, of all scopes.
    package var count: Int { shelves.withLock { $0.byScope.values.reduce(0) { $0 + $1.entries.count } } }

    /// Forgets a scope's renderings and takes those of its version `change` from now on.
    package func begin(_ scope: Scope, _ change: CommitSequence) {
        shelves.withLock { shelves in
            let old = shelves.byScope.updateValue(Shelf(change: change), forKey: scope)
            for entry in old?.entries.values ?? [:].values { shelves.byteCount -= entry.byteCount }
        }
    }

    /// nil when it was never rendered, or is gone.
    package func rendering(
        of outcome: ConditionOutcome, in scope: Scope, _ change: CommitSequence
    ) -> FetchRendering? {
        shelves.withLock { $0.byScope[scope]?.rendering(of: outcome, change) }
    }

    /// Keeps a rendering, unless its version has been replaced meanwhile.
    package func keep(
        _ rendering: FetchRendering, of outcome: ConditionOutcome, in scope: Scope, _ change: CommitSequence
    ) {
        shelves.withLock { shelves in
            guard shelves.byScope[scope]?.lacks(outcome, change) == true else { return }
            let entry = Entry(rendering, of: outcome)
            guard entry.byteCount <= maxBytes else { return }
            if shelves.byScope[scope]?.entries.count ?? 0 >= maxOutcomes { shelves.dropOne(of: scope) }
            while shelves.byteCount + entry.byteCount > maxBytes, let victim = shelves.oldestScope {
                shelves.dropOne(of: victim)
            }
            shelves.byScope[scope]?.entries[outcome] = entry
            shelves.byScope[scope]?.order.append(outcome)
            shelves.byteCount += entry.byteCount
        }
    }
}

extension RenderingCache.Shelves {
    /// Of the scopes that hold renderings the one whose version is the oldest.
    fileprivate var oldestScope: Scope? {
        byScope.lazy.filter { !$0.value.entries.isEmpty }.min { $0.value.change < $1.value.change }?.key
    }

    fileprivate mutating func dropOne(of scope: Scope) {
        byteCount -= byScope[scope]?.dropOne() ?? 0
    }
}

extension RenderingCache.Shelf {
    fileprivate func lacks(_ outcome: ConditionOutcome, _ change: CommitSequence) -> Bool {
        self.change == change && entries[outcome] == nil
    }

    fileprivate mutating func rendering(of outcome: ConditionOutcome, _ change: CommitSequence) -> FetchRendering? {
        guard self.change == change, let index = entries.index(forKey: outcome) else { return nil }
        entries.values[index].isUsed = true
        return entries.values[index].rendering
    }

    /// Drops the oldest that was not asked for since it was made or spared.
    ///
    /// - Returns: its bytes.
    fileprivate mutating func dropOne() -> Int {
        var dropped = 0
        while dropped == 0, oldest < order.count {
            let outcome = order[oldest]
            oldest += 1
            if entries[outcome]?.isUsed == true {
                entries[outcome]?.isUsed = false
                order.append(outcome)
            } else {
                dropped = entries.removeValue(forKey: outcome)?.byteCount ?? 0
            }
        }
        if oldest * 2 > order.count {
            order.removeFirst(oldest)
            oldest = 0
        }
        return dropped
    }
}
