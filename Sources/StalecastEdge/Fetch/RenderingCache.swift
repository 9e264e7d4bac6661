package import StalecastTemplate
package import StalecastWire
import Synchronization

/// Finished answers by scope and condition outcome, for the newest version of each scope, and for its base too while a
/// release is open. Bounded: of one version it keeps ``maxOutcomes``, of all together ``maxBytes``. The oldest version
/// gives way first; of one version's answers the one that ``SecondChance`` chooses.
package final class RenderingCache: Sendable {
    fileprivate struct Entry: Sendable {
        let rendering: FetchRendering
        let byteCount: Int

        init(_ rendering: FetchRendering, of outcome: ConditionOutcome) {
            self.rendering = rendering
            // The outcome is there twice: as key, and in the order.
            byteCount = rendering.byteCount + 2 * outcome.byteCount
        }
    }

    fileprivate struct Shelf: Sendable {
        var change: CommitSequence
        var entries = SecondChance<ConditionOutcome, Entry>()
    }

    fileprivate struct Shelves {
        /// Shelves of each scope, at most two.
        var byScope: [Scope: [Shelf]] = [:]
        var byteCount = 0
    }

    /// Renderings that the cache does not hold any more.
    package struct Forgotten: Sendable { fileprivate let shelves: [Shelf] }

    private let maxOutcomes: Int
    private let maxBytes: Int
    private let shelves = Mutex(Shelves())
    /// Answers in other dialects, of the same versions.
    private let forms: [FlagForm: RenderingCache]

    /// - Parameters:
    ///   - maxOutcomes: renderings of one version; default 1,024.
    ///   - maxBytes: of all renderings and their outcomes; default 64 MiB.
    ///   - forms: caches of the answers in other dialects.
    package init(maxOutcomes: Int = 1024, maxBytes: Int = 64 << 20, forms: [FlagForm: RenderingCache] = [:]) {
        (self.forms, self.maxOutcomes, self.maxBytes) = (forms, maxOutcomes, maxBytes)
    }

    /// Bytes held now.
    package var byteCount: Int {
        shelves.withLock { $0.byteCount } + forms.values.reduce(0) { $0 + $1.byteCount }
    }
    /// Renderings held now, of all scopes.
    package var count: Int {
        let own = shelves.withLock { $0.byScope.values.joined().reduce(0) { $0 + $1.entries.count } }
        return forms.values.reduce(own) { $0 + $1.count }
    }

    /// nil where answers in that form are not kept.
    func cache(of form: FlagForm) -> RenderingCache? { forms[form] }

    /// Takes a scope's renderings of these versions from now on, and forgets those of others.
    @discardableResult
    package func begin(_ scope: Scope, _ changes: [CommitSequence]) -> Forgotten {
        let old = forms.values.flatMap { $0.begin(scope, changes).shelves }
        return shelves.withLock { shelves in
            let former = shelves.byScope[scope] ?? []
            for shelf in former where !changes.contains(shelf.change) {
                for entry in shelf.entries.values { shelves.byteCount -= entry.byteCount }
            }
            shelves.byScope[scope] = changes.map { change in
                former.first { $0.change == change } ?? Shelf(change: change)
            }
            return Forgotten(shelves: old + former.filter { !changes.contains($0.change) })
        }
    }

    /// nil when it was never rendered, or is gone.
    package func rendering(
        of outcome: ConditionOutcome, in scope: Scope, _ change: CommitSequence
    ) -> FetchRendering? {
        shelves.withLock { shelves in
            // Through indices: a scope is hashed once for each fetch.
            guard let index = shelves.byScope.index(forKey: scope),
                let place = shelves.byScope.values[index].firstIndex(where: { $0.change == change })
            else { return nil }
            return shelves.byScope.values[index][place].entries.value(of: outcome)?.rendering
        }
    }

    /// Keeps a rendering, unless its version has been replaced meanwhile.
    package func keep(
        _ rendering: FetchRendering, of outcome: ConditionOutcome, in scope: Scope, _ change: CommitSequence
    ) {
        shelves.withLock { shelves in
            guard let place = shelves.place(scope, change),
                shelves.byScope[scope]?[place].entries.contains(outcome) == false
            else { return }
            let entry = Entry(rendering, of: outcome)
            guard entry.byteCount <= maxBytes else { return }
            if shelves.byScope[scope]?[place].entries.count ?? 0 >= maxOutcomes { shelves.dropOne(of: scope, place) }
            while shelves.byteCount + entry.byteCount > maxBytes, let (victim, shelf) = shelves.oldest {
                shelves.dropOne(of: victim, shelf)
            }
            shelves.byScope[scope]?[place].entries.keep(entry, of: outcome)
            shelves.byteCount += entry.byteCount
        }
    }
}

extension RenderingCache.Shelves {
    fileprivate func place(_ scope: Scope, _ change: CommitSequence) -> Int? {
        byScope[scope]?.firstIndex { $0.change == change }
    }

    /// Oldest of the versions that hold renderings.
    fileprivate var oldest: (Scope, Int)? {
        var found: (scope: Scope, place: Int, change: CommitSequence)?
        for (scope, shelves) in byScope {
            for (place, shelf) in shelves.enumerated() where shelf.entries.count > 0 {
                if shelf.change < found?.change ?? .max { found = (scope, place, shelf.change) }
            }
        }
        return found.map { ($0.scope, $0.place) }
    }

    fileprivate mutating func dropOne(of scope: Scope, _ place: Int) {
        byteCount -= byScope[scope]?[place].entries.dropOne()?.byteCount ?? 0
    }
}

/// The outcomes of a version by what its conditions read of a fetch: fetches that say the same are evaluated once,
/// also when they come at the same time. A client chooses what it says, so the table is bounded: 1,024 keys of 512 bytes.
/// A key beyond those drives another out (``SecondChance``), which is evaluated again when it comes again.
package final class KnownOutcomes: Sendable {
    package static let maxKeys = 1024
    private static let maxKeyBytes = 512

    /// nil where no two fetches have one outcome for sure.
    private let inputs: [ConditionInput]?
    private let outcomes = Mutex(SecondChance<Key, ConditionOutcome>())
    /// Locks of evaluations, by key. There are several, so that few threads wait for the evaluation of another key.
    private let evaluations = (0..<16).map { _ in Evaluation() }

    private final class Evaluation: Sendable { let lock = Mutex(()) }

    /// Values that the conditions read of a fetch. They are hashed as a whole: an array is hashed byte by byte.
    package struct Key: Hashable {
        fileprivate var bytes: [UInt8] = []

        package func hash(into hasher: inout Hasher) { bytes.withUnsafeBytes { hasher.combine(bytes: $0) } }
    }

    /// - Parameter inputs: of ``CompiledTemplate/inputs``.
    package init(_ inputs: [ConditionInput]?) {
        // A name beyond ASCII may be equal to one within: Swift compares texts by canonical equivalence, a key bytes.
        let isPlain = inputs?.allSatisfy { input in
            switch input {
            case .attribute(.userProperty(let name)), .attribute(.customSignal(let name)):
                name.utf8.allSatisfy { $0 < 0x80 }
            default: true
            }
        }
        self.inputs = isPlain == true ? inputs : nil
    }

    /// nil for a fetch whose result is not shared.
    package func key(of scan: FetchScan) -> Key? {
        guard let inputs else { return nil }
        var key = Key()
        key.bytes.reserveCapacity(64)
        return scan.appendKey(of: inputs, most: Self.maxKeyBytes, to: &key.bytes) ? key : nil
    }

    func outcome(of key: Key) -> ConditionOutcome? { outcomes.withLock { $0.value(of: key) } }

    /// Outcome of a key, which is evaluated where it is not known. A thread that asks for a key which another evaluates
    /// waits for that: it would not be done sooner by itself.
    package func outcome(of key: Key, evaluate: () -> ConditionOutcome) -> ConditionOutcome {
        evaluations[Int(UInt(bitPattern: key.hashValue) % UInt(evaluations.count))].lock.withLock { _ in
            if let known = outcome(of: key) { return known }
            let outcome = evaluate()
            outcomes.withLock { outcomes in
                if outcomes.count >= Self.maxKeys { _ = outcomes.dropOne() }
                outcomes.keep(outcome, of: key)
            }
            return outcome
        }
    }
}
