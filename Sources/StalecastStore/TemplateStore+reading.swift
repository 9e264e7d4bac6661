import GRDB
package import StalecastWire
import Synchronization

extension TemplateStore {
    /// The scope's newest version; nil while it has none. Answered from memory, without the database.
    /// Of a shared log it is what the log had when this was called, if the log can be asked.
    package func current(_ scope: Scope) async throws(StoreError) -> StoredVersion? {
        await authority?.refresh()
        return currentTemplates[scope]
    }

    /// A version with its content; nil when it is not stored, or no longer. A number above the newest here is asked for in
    /// the shared log: another node may have just given it away.
    package func version(_ number: VersionNumber, of scope: Scope) async throws(StoreError) -> StoredVersion? {
        if number > currentTemplates[scope]?.version ?? 0 { await authority?.refresh() }
        if let current = currentTemplates[scope], current.version == number { return current }
        return try await read { try VersionTable.version(number, of: scope, $0) }
    }

    /// One page of the scope's versions, newest first, with what the shared log had when this was called.
    package func versions(of scope: Scope, _ query: VersionQuery) async throws(StoreError) -> VersionQuery.Page {
        await authority?.refresh()
        return try await read { try VersionTable.page(of: scope, query, $0) }
    }

    /// The scope's newest `limit` changes, oldest first: what a hub starts from. Blocks on the database.
    package func recentChanges(of scope: Scope, limit: Int) throws(StoreError) -> [TemplateChange] {
        try readNow { try VersionTable.recentChanges(of: scope, limit: limit, $0) }
    }

    /// Like ``recentChanges(of:limit:)``, without blocking.
    package func newestChanges(of scope: Scope, limit: Int) async throws(StoreError) -> [TemplateChange] {
        try await read { try VersionTable.recentChanges(of: scope, limit: limit, $0) }
    }

    /// The scope's stored changes after a sequence, oldest first, at most `limit`: what a reader has missed. Blocks on the
    /// database.
    package func changes(
        of scope: Scope, after sequence: CommitSequence, limit: Int
    ) throws(StoreError) -> [TemplateChange] {
        try readNow { try VersionTable.changes(of: scope, after: sequence, limit: limit, $0) }
    }

    /// Reads without blocking.
    ///
    /// - Throws: ``StoreError/readFailed(_:)``.
    func read<Value: Sendable>(
        _ query: @escaping @Sendable (Database) throws -> Value
    ) async throws(StoreError) -> Value {
        do { return try await database.read(query) } catch { throw Self.readFailed(error) }
    }

    /// Like ``read(_:)``, but blocks on the database: for the start, and for threads that may wait.
    func readNow<Value>(_ query: (Database) throws -> Value) throws(StoreError) -> Value {
        do { return try database.read(query) } catch { throw Self.readFailed(error) }
    }

    private static func readFailed(_ error: any Error) -> StoreError {
        .readFailed("the database could not be read: \(error)")
    }
}
