import Foundation
import GRDB
package import StalecastRecords
package import StalecastWire
import Synchronization

extension WebhookRegistry {
    enum Step: Sendable { case install, uninstall, nothing }

    /// Records in which all nodes of a cluster keep their webhooks: sealed as in the database.
    struct Shared: Sendable {
        let table: EntryTable
        /// Position of this node in the history.
        let place: @Sendable () -> StalecastWire.Cursor
    }

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
        var changed: WebhookID?
        let entry = try await shared.table.change {
            () async throws(RegistryProblem) -> (RegistryEntry, EntryTable.Change) in
            // Another node was quicker: this one decides from what is there instead.
            if let changed { _ = await takeOver(changed, from: shared.table) }
            let (entry, change) = try await serially { db in
                try self.change(shared, db, decide)
            }
            if case .nothing = change { changed = nil } else { changed = entry.webhook.id }
            return (entry, change)
        } failure: { error in
            error.map { RegistryProblem.away(cause: $0.description) } ?? .changedMeanwhile
        }
        // What the disk refuses now is taken over by a later pass.
        if let changed { _ = await takeOver(changed, from: shared.table) }
        return entry
    }

    private func change(
        _ shared: Shared, _ db: Database, _ decide: () throws(RegistryProblem) -> (RegistryEntry, Step)
    ) throws -> (RegistryEntry, EntryTable.Change) {
        var (entry, step) = try decide()
        let (id, revision) = (entry.webhook.id, revision(of: entry.webhook.id))
        switch (step, revision) {
        case (.install, _):
            let known = webhook(id)?.topics ?? []
            for topic in entry.webhook.topics where !known.contains(topic) {
                entry.webhook.since[topic] = shared.place()
            }
            return (entry, .put(id.description, Array(try database.seal(entry)), over: revision))
        case (.uninstall, let revision?): return (entry, .remove(id.description, at: revision))
        case (.uninstall, nil): try uninstall(id, db)
        case (.nothing, _): break
        }
        return (entry, .nothing)
    }

    // MARK: What other nodes did

    /// Sends changes from now on to the records that all nodes share.
    ///
    /// - Parameters:
    ///   - place: position of this node in the history.
    ///   - pause: before what could not be taken over or shared is tried again; default 1 s.
    package func share(
        in informer: Informer, place: @escaping @Sendable () -> StalecastWire.Cursor, pause: Duration = .seconds(1)
    ) {
        let table = EntryTable(informer, kind: "webhook", pause: pause)
        state.withLock { $0.shared = Shared(table: table, place: place) }
    }

    /// Takes over what other nodes do, until the task is cancelled; returns at once where nothing is shared. Once.
    package func followShared() async {
        guard let table = shared?.table else { return }
        await table.follow { [self] in
            // Webhooks that are gone since this node saw them last.
            var isDone = true
            for id in sharedIDs where table[id.description] == nil {
                isDone = await takeOver(id, from: table) && isDone
            }
            isDone =
                await table.copyChanged { [self] record in
                    // What is no webhook is none here either.
                    guard let id = WebhookID(record.name.id) else { return true }
                    return await takeOver(id, from: table)
                } && isDone
            return await shareOwn(in: table) && isDone
        }
    }

    /// Takes over a webhook's record as it is now: an older one never comes after a newer one.
    ///
    /// - Returns: false when the database did not take it.
    private func takeOver(_ id: WebhookID, from table: EntryTable) async -> Bool {
        do throws(RegistryProblem) {
            try await serially { db in
                guard let record = table[id.description] else { return try self.forget(id, db) }
                try self.takeOver(id, record, db)
            }
            return true
        } catch {
            return false
        }
    }

    private func takeOver(_ id: WebhookID, _ record: SharedRecord, _ db: Database) throws {
        let entry = try database.open(Data(record.value), of: id.description)
        if entry.webhook.origin == .api { return try mirror(entry, record.revision, db) }
        // What was decided at run time of a webhook whose settings each node has from its own file.
        guard let own = known(id), own.isInstalled else {
            return try remember(entry, revision: record.revision, db)
        }
        try mirror(own.entry.decided(as: entry), record.revision, db)
    }

    /// Webhooks of the API that were made before there was a cluster, to where all nodes keep them.
    ///
    /// - Returns: false when they are to be shared again.
    private func shareOwn(in table: EntryTable) async -> Bool {
        for webhook in webhooks where webhook.origin == .api && revision(of: webhook.id) == nil {
            let id = webhook.id
            do {
                let sealed = try await serially { _ in
                    try self.database.seal(try self.entry(id, in: webhook.project))
                }
                _ = try await table.make(.put(id.description, Array(sealed), over: nil))
            } catch {
                return false
            }
        }
        return true
    }

    /// Makes the webhooks of a directory, whose registry is not open, its own: what another cluster knew of them is
    /// nothing to the next one, which would take them for removed. Blocks.
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
