package import Foundation
import GRDB
package import StalecastWire
import Synchronization

/// Records in which all nodes of a cluster keep their webhooks: sealed as in the database, compared and set.
package struct SharedWebhooks: Sendable {
    /// Puts a webhook's sealed row, or removes it for nil. It is mirrored when this returns, or, for false, what is
    /// there instead.
    ///
    /// - Parameter revision: of the record it replaces; nil: there is none.
    package typealias Change = @Sendable (_ id: String, _ sealed: Data?, _ revision: Int64?) async throws -> Bool

    let change: Change
    /// Position of this node in the history.
    let place: @Sendable () -> StalecastWire.Cursor

    package init(place: @escaping @Sendable () -> StalecastWire.Cursor, change: @escaping Change) {
        self.place = place
        self.change = change
    }
}

extension WebhookRegistry {
    /// Step that an entry needs.
    enum Step: Sendable { case install, uninstall, nothing }

    /// Number of times a change is decided anew when another node was quicker.
    private static let attempts = 10

    /// The one way of a change: decided alone, on the registry's thread, from what is there then; written and told
    /// here, or where all nodes keep it.
    func commit(
        _ decide: @escaping @Sendable () throws(RegistryProblem) -> (RegistryEntry, Step)
    ) async throws(RegistryProblem) -> RegistryEntry {
        guard let shared else {
            return try await serially { db in
                let (entry, step) = try decide()
                switch step {
                case .install: try self.install(entry, db)
                case .uninstall: try self.uninstall(entry.webhook.id, db)
                case .nothing: break
                }
                return entry
            }
        }
        for _ in 0..<Self.attempts {
            let (entry, step, sealed, revision) = try await serially { _ in
                var (entry, step) = try decide()
                let known = self.webhook(entry.webhook.id)?.topics ?? []
                for topic in entry.webhook.topics where !known.contains(topic) {
                    entry.webhook.since[topic] = shared.place()
                }
                let sealed = step == .install ? try self.database.seal(entry) : nil
                return (entry, step, sealed, self.revision(of: entry.webhook.id))
            }
            if step == .nothing { return entry }
            let id = entry.webhook.id
            if step == .uninstall, revision == nil {
                try await serially { try self.uninstall(id, $0) }
                return entry
            }
            do {
                let isDone = try await shared.change(id.description, sealed, revision)
                // Behind what came of it.
                try await serially { _ in }
                if isDone { return entry }
            } catch let problem as RegistryProblem {
                throw problem
            } catch {
                throw .away(cause: "\(error)")
            }
        }
        throw .changedMeanwhile
    }

    // MARK: What other nodes did

    /// A shared record is as it is now; quick, called in order.
    ///
    /// - Parameter sealed: nil: it was removed.
    package func mirror(_ id: String, _ sealed: Data?, revision: Int64) {
        state.withLock { _ in takeOver(id, sealed, revision) }
    }

    private func takeOver(_ id: String, _ sealed: Data?, _ revision: Int64) {
        database.queue.asyncWriteWithoutTransaction { db in
            do {
                try self.takeOver(id, sealed, revision, db)
                self.state.withLock { $0.unmirrored[id] = nil }
            } catch {
                let isFirst = self.state.withLock { state in
                    state.unmirrored[id] = (sealed, revision)
                    defer { state.isMirroringAgain = true }
                    return !state.isMirroringAgain
                }
                if isFirst { self.takeOverAgain() }
            }
        }
    }

    private static let takeOverAgainAfter = Duration.seconds(1)

    /// A disk that was full has room some day; the board tells of a record only once.
    private func takeOverAgain() {
        Task { [weak self] in
            try? await Task.sleep(for: Self.takeOverAgainAfter)
            self?.state.withLock { state in
                state.isMirroringAgain = false
                for (id, record) in state.unmirrored { self?.takeOver(id, record.sealed, record.revision) }
            }
        }
    }

    private func takeOver(_ id: String, _ sealed: Data?, _ revision: Int64, _ db: Database) throws {
        guard let known = WebhookID(id) else { return }
        guard let sealed else { return try self.forget(known, db) }
        let entry = try self.database.open(sealed, of: id)
        if entry.webhook.origin == .api { return try self.mirror(entry, revision, db) }
        // What was decided at run time of a webhook whose settings each node has from its own file.
        guard let own = self.known(known), own.isInstalled else {
            return try self.remember(entry, revision: revision, db)
        }
        try self.mirror(own.entry.decided(as: entry), revision, db)
    }

    /// All shared records have been mirrored: those that are gone since this node saw them last are gone here.
    package func mirroredAll(_ ids: Set<String>) {
        for id in sharedIDs where !ids.contains(id.description) { mirror(id.description, nil, revision: 0) }
    }

    /// Webhooks of the API that were made before there was a cluster, to where all nodes keep them.
    ///
    /// - Throws: ``RegistryProblem/away(cause:)``
    package func shareOwn() async throws(RegistryProblem) {
        guard let shared else { return }
        for webhook in webhooks where webhook.origin == .api && revision(of: webhook.id) == nil {
            let id = webhook.id
            let sealed = try await serially { _ in
                try self.database.seal(try self.entry(id, in: webhook.project))
            }
            do { _ = try await shared.change(id.description, sealed, nil) } catch { throw .away(cause: "\(error)") }
        }
    }

    /// Makes the webhooks of a directory, whose registry is not open, its own: what another cluster knew of them is
    /// nothing to the next one, which would take them for removed. Blocks.
    ///
    /// - Throws: `DatabaseError`.
    package static func unshare(in directory: String) throws {
        let path = "\(directory)/\(fileName)"
        if FileManager.default.fileExists(atPath: path) { try RegistryDatabase.unshare(at: path) }
    }

    private func mirror(_ entry: RegistryEntry, _ revision: Int64, _ db: Database) throws {
        let own = self.known(entry.webhook.id)
        let isSame = own?.isInstalled == true && own?.entry.webhook == entry.webhook && own?.entry.keys == entry.keys
        if isSame, self.revision(of: entry.webhook.id) == revision { return }
        try install(entry, revision: revision, db)
    }

    /// Forgets a webhook. Of one from the file only what was decided at run time goes.
    private func forget(_ id: WebhookID, _ db: Database) throws {
        guard let own = known(id), own.entry.webhook.origin == .configuration, own.isInstalled else {
            return try uninstall(id, db)
        }
    }
}

extension RegistryEntry {
    /// This webhook of the file, paused and agreed to as `other` is.
    fileprivate func decided(as other: RegistryEntry) -> RegistryEntry {
        var entry = self
        entry.webhook.isPaused = other.webhook.isPaused
        if entry.webhook.url == other.webhook.url,
            entry.webhook.verification.method == other.webhook.verification.method
        {
            entry.webhook.verification = other.webhook.verification
        }
        entry.webhook.generation = max(entry.webhook.generation, other.webhook.generation)
        return entry
    }
}
