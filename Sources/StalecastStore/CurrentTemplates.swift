package import StalecastWire
import Synchronization

/// The newest committed version of every scope, in memory: what `:fetch` serves. The store's writer is the only one to
/// change it, after a commit is durable and before the commit is announced, so it is never older than a message.
package final class CurrentTemplates: Sendable {
    private struct Contents {
        var versions: [Scope: StoredVersion] = [:]
        var head: CommitSequence = 0
    }

    private let contents: Mutex<Contents>

    init(_ versions: [StoredVersion], head: CommitSequence) {
        let pairs = versions.map { ($0.scope, $0) }
        contents = Mutex(Contents(versions: Dictionary(uniqueKeysWithValues: pairs), head: head))
    }

    /// The scope's newest version; nil while it has none. Does not block on the database.
    package subscript(scope: Scope) -> StoredVersion? { contents.withLock { $0.versions[scope] } }

    /// The scope's newest version, and the sequence of the newest in any scope at the same moment.
    func end(of scope: Scope) -> (current: StoredVersion?, head: CommitSequence) {
        contents.withLock { ($0.versions[scope], $0.head) }
    }

    /// The sequence of the newest visible commit in any scope; 0 is an empty store.
    package var head: CommitSequence { contents.withLock { $0.head } }

    /// Every scope that has a version, sorted.
    package var scopes: [Scope] { contents.withLock { $0.versions.keys.sorted() } }

    /// A commit brought no version: a stage of a release was reached.
    func advance(to head: CommitSequence) { contents.withLock { $0.head = head } }

    /// Makes a durable version visible.
    func show(_ version: StoredVersion) {
        contents.withLock {
            $0.versions[version.scope] = version
            $0.head = version.change.sequence
        }
    }
}
