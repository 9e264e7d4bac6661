import Foundation
import GRDB
package import StalecastOutbound
package import StalecastWire
import Synchronization

/// Every registered webhook with its keys: those made through the API, kept in `webhooks.sqlite`, and those of the
/// configuration file. Reads come from memory; changes are durable before they count, and are told in their order.
package final class WebhookRegistry: Sendable {
    let database: RegistryDatabase
    let clock: @Sendable () -> Timestamp
    let state = Mutex(WebhookRegistry.Contents())
    /// Number of changes of webhooks, keys and rules so far; counted after each.
    private let changeCount = Atomic<UInt64>(0)

    package enum Change: Sendable {
        case installed(Webhook)
        case removed(WebhookID)
    }

    /// Opens the registry in `directory`; blocks.
    ///
    /// - Parameters:
    ///   - keyFile: the key of the secrets; nil is `webhooks.key` in `directory`, made at first start.
    ///   - rules: what may be registered.
    ///   - maxPerProject: webhooks of one project.
    /// - Throws: ``VaultKey.Problem`` about the key, `DatabaseError`, ``RegistryProblem``.
    package init(
        directory: String, keyFile: String? = nil, rules: WebhookRules, maxPerProject: Int = 10_000,
        clock: @escaping @Sendable () -> Timestamp = Timestamp.now
    ) throws {
        database = try RegistryDatabase.open(
            at: "\(directory)/\(Self.fileName)", keyFile: keyFile ?? "\(directory)/\(Self.keyFileName)")
        self.clock = clock
        let entries = try database.load()
        state.withLock { state in
            state.rules = rules
            state.maxPerProject = maxPerProject
            for (entry, revision) in entries {
                if revision > 0 { state.revisions[entry.webhook.id] = revision }
                if entry.webhook.origin == .api {
                    state.put(entry)
                } else {
                    state.remembered[entry.webhook.id] = entry
                }
            }
        }
    }

    package static let fileName = "webhooks.sqlite"
    package static let keyFileName = "webhooks.key"

    /// Hears of every change from now on, in order, on the registry's own thread: it must be quick.
    package func observe(_ observer: @escaping @Sendable (Change) -> Void) {
        state.withLock { $0.observer = observer }
    }

    /// Sets the rules for new webhooks, and where requests may go; existing webhooks are not checked again.
    package func setRules(_ rules: WebhookRules, maxPerProject: Int) {
        state.withLock { state in
            state.rules = rules
            state.maxPerProject = maxPerProject
        }
        countChange()
    }

    var changes: UInt64 { changeCount.load(ordering: .acquiring) }

    private func countChange() { changeCount.wrappingAdd(1, ordering: .releasing) }

    package var rules: WebhookRules { state.withLock { $0.rules } }
    package var maxPerProject: Int { state.withLock { $0.maxPerProject } }

    // MARK: Reading

    /// All webhooks, in no order.
    package var webhooks: [Webhook] { state.withLock { $0.entries.values.map(\.entry.webhook) } }

    /// The webhooks of a project, oldest first.
    package func entries(of project: ProjectID) -> [RegistryEntry] {
        state.withLock { state in state.entries.values.map(\.entry).filter { $0.webhook.project == project } }
            .sorted { ($0.webhook.createdAt, $0.webhook.id) < ($1.webhook.createdAt, $1.webhook.id) }
    }

    /// - Throws: ``RegistryProblem/notFound(_:)``.
    package func entry(_ id: WebhookID, in project: ProjectID) throws(RegistryProblem) -> RegistryEntry {
        guard let entry = state.withLock({ $0.entries[id]?.entry }), entry.webhook.project == project else {
            throw .notFound(id.description)
        }
        return entry
    }

    /// The webhook's prepared keys; nil for a webhook that is gone.
    package func signer(of id: WebhookID) -> Signer? { state.withLock { $0.entries[id]?.entry.signer } }

    package func policy(of profile: AddressPolicy.Profile) -> AddressPolicy {
        rules.policy(of: profile)
    }

    package func webhook(_ id: WebhookID) -> Webhook? { state.withLock { $0.entries[id]?.entry.webhook } }

    /// A configured webhook as it is, or as it was when the configuration named it last.
    func known(_ id: WebhookID) -> (entry: RegistryEntry, isInstalled: Bool)? {
        state.withLock { state in
            if let entry = state.entries[id]?.entry { return (entry, true) }
            return state.remembered[id].map { ($0, false) }
        }
    }

    /// Rows of the configured webhooks of the last run.
    var rememberedIDs: Set<WebhookID> { state.withLock { Set($0.remembered.keys) } }

    // MARK: Changing

    /// - Throws: ``RegistryProblem/tooMany(limit:)`` when the project has as many as it may have.
    func checkRoom(in project: ProjectID) throws(RegistryProblem) {
        let (count, limit) = state.withLock { ($0.made[project] ?? 0, $0.maxPerProject) }
        if count >= limit { throw .tooMany(limit: limit) }
    }

    /// Runs `body` alone, on the registry's thread, where it may block.
    func serially<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(RegistryProblem) -> Value {
        do { return try await database.queue.writeWithoutTransaction(body) } catch { throw RegistryProblem(error) }
    }

    /// Writes `entry`, then tells the listeners. Only within ``serially(_:)``.
    ///
    /// - Parameter revision: of the shared record that it is; nil leaves it.
    func install(_ entry: RegistryEntry, revision: Int64? = nil, _ db: Database) throws {
        try database.store(entry, revision: revision, db)
        installed(entry, revision: revision)
    }

    /// Tells the listeners of what is written. Only within ``serially(_:)``.
    func installed(_ entry: RegistryEntry, revision: Int64? = nil) {
        tell(.installed(entry.webhook)) { state in
            state.put(entry)
            if let revision { state.revisions[entry.webhook.id] = revision }
        }
    }

    /// Writes what is remembered of a webhook that the configuration may name later. Only on the registry's thread.
    func remember(_ entry: RegistryEntry, revision: Int64, _ db: Database) throws {
        try database.store(entry, revision: revision, db)
        state.withLock { state in
            state.remembered[entry.webhook.id] = entry
            state.revisions[entry.webhook.id] = revision
        }
    }

    /// Removes it, then tells the listeners. Only within ``serially(_:)``.
    func uninstall(_ id: WebhookID, _ db: Database) throws {
        try database.remove(id, db)
        uninstalled(id)
    }

    /// Tells the listeners of what is removed. Only within ``serially(_:)``.
    func uninstalled(_ id: WebhookID) { tell(.removed(id)) { $0.remove(id) } }

    private func tell(_ change: Change, _ apply: (inout Contents) -> Void) {
        let observer = state.withLock { state in
            apply(&state)
            return state.observer
        }
        // Counted first: a listener must not be served with what was prepared before the change.
        countChange()
        observer?(change)
    }

    // MARK: Shared with other nodes

    var shared: Shared? { state.withLock { $0.shared } }

    /// Revision of a webhook's shared record; nil: it has none.
    func revision(of id: WebhookID) -> Int64? { state.withLock { $0.revisions[id] } }

    /// Every webhook that has a shared record, as far as this node knows.
    var sharedIDs: Set<WebhookID> { state.withLock { Set($0.revisions.keys) } }

    /// Ends the database; nothing can be changed afterwards.
    package func close() {
        // A database that cannot be closed now is closed by the end of the process.
        try? database.queue.close()
    }
}

extension WebhookRegistry {
    /// Contents that the registry holds in memory.
    struct Contents: Sendable {
        private(set) var entries: [WebhookID: Boxed] = [:]

        /// An entry is large, and a dictionary has more places than elements.
        final class Boxed: Sendable {
            let entry: RegistryEntry

            init(_ entry: RegistryEntry) { self.entry = entry }
        }

        /// Number of webhooks that each project made through the API.
        private(set) var made: [ProjectID: Int] = [:]
        /// Rows of configured webhooks that the configuration has not named (yet).
        var remembered: [WebhookID: RegistryEntry] = [:]
        var rules = WebhookRules(topics: { _ in [] })
        var maxPerProject = 0
        var observer: (@Sendable (WebhookRegistry.Change) -> Void)?
        var shared: Shared?
        var revisions: [WebhookID: Int64] = [:]

        mutating func put(_ entry: RegistryEntry) {
            count(entries.updateValue(Boxed(entry), forKey: entry.webhook.id)?.entry, -1)
            count(entry, 1)
        }

        mutating func remove(_ id: WebhookID) {
            count(entries.removeValue(forKey: id)?.entry, -1)
            remembered[id] = nil
            revisions[id] = nil
        }

        private mutating func count(_ entry: RegistryEntry?, _ difference: Int) {
            guard let webhook = entry?.webhook, webhook.origin == .api else { return }
            made[webhook.project, default: 0] += difference
        }
    }
}
