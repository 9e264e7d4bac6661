package import StalecastWire
import Synchronization

/// Finished answers by scope and condition outcome, for the newest version of each scope. Bounded: of one version it
/// keeps ``maxOutcomes``, of all together ``maxBytes``; the first rendered of the oldest version goes first.
package final class RenderingCache<Outcome: Hashable & Sendable>: Sendable {
    fileprivate struct Shelf {
        var change: CommitSequence
        var renderings: [Outcome: FetchRendering] = [:]
        /// As rendered; those before `oldest` are gone.
        var order: [Outcome] = []
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
    ///   - maxBytes: of all renderings; default 64 MiB.
    package init(maxOutcomes: Int = 1024, maxBytes: Int = 64 << 20) {
        self.maxOutcomes = maxOutcomes
        self.maxBytes = maxBytes
    }

    /// Bytes held now.
    package var byteCount: Int { shelves.withLock { $0.byteCount } }
    /// Renderings held now, of all scopes.
    package var count: Int { shelves.withLock { $0.byScope.values.reduce(0) { $0 + $1.renderings.count } } }

    /// Forgets a scope's renderings and takes those of its version `change` from now on.
    package func begin(_ scope: Scope, _ change: CommitSequence) {
        shelves.withLock { shelves in
            let old = shelves.byScope.updateValue(Shelf(change: change), forKey: scope)
            for rendering in old?.renderings.values ?? [:].values { shelves.byteCount -= rendering.byteCount }
        }
    }

    /// nil when it was never rendered, or is gone.
    package func rendering(of outcome: Outcome, in scope: Scope, _ change: CommitSequence) -> FetchRendering? {
        shelves.withLock { shelves in
            guard let shelf = shelves.byScope[scope], shelf.change == change else { return nil }
            return shelf.renderings[outcome]
        }
    }

    /// Keeps a rendering, unless its version has been replaced meanwhile.
    package func keep(_ rendering: FetchRendering, of outcome: Outcome, in scope: Scope, _ change: CommitSequence) {
        shelves.withLock { shelves in
            guard let shelf = shelves.byScope[scope], shelf.change == change, shelf.renderings[outcome] == nil
            else { return }
            if shelf.renderings.count >= maxOutcomes { shelves.dropOldest(of: scope) }
            shelves.byScope[scope]?.renderings[outcome] = rendering
            shelves.byScope[scope]?.order.append(outcome)
            shelves.byteCount += rendering.byteCount
            while shelves.byteCount > maxBytes, let victim = shelves.oldestScope { shelves.dropOldest(of: victim) }
        }
    }
}

extension RenderingCache.Shelves {
    /// Of the scopes that hold renderings the one whose version is the oldest.
    fileprivate var oldestScope: Scope? {
        byScope.filter { !$0.value.renderings.isEmpty }.min { $0.value.change < $1.value.change }?.key
    }

    fileprivate mutating func dropOldest(of scope: Scope) {
        guard let removed = byScope[scope]?.dropOldest() else { return }
        byteCount -= removed.byteCount
    }
}

extension RenderingCache.Shelf {
    fileprivate mutating func dropOldest() -> FetchRendering? {
        guard oldest < order.count else { return nil }
        let removed = renderings.removeValue(forKey: order[oldest])
        oldest += 1
        if oldest * 2 > order.count {
            order.removeFirst(oldest)
            oldest = 0
        }
        return removed
    }
}
