package import StalecastAccess
package import StalecastHTTP
package import StalecastRecords
package import StalecastStore
import StalecastWire
import Synchronization

/// API keys of a cluster: records of kind `key`, which every node takes and keeps a copy of for when etcd is away. Keys
/// are never removed, only revoked.
package final class SharedKeys: KeyStorage {
    private let table: EntryTable
    private let store: TemplateStore
    private let access: Authorizer
    /// Whether this node brings keys that only it has.
    private let sharesOwn: Bool
    /// Keys that are not copied yet.
    private let waiting = Mutex<[String: AccessKey]>([:])

    package static let kind = "key"
    package let isShared = true

    /// - Parameters:
    ///   - sharesOwn: false for a node that only follows.
    ///   - pause: before what etcd did not take is shared again; default 10 s.
    package init(
        _ informer: Informer, _ store: TemplateStore, _ access: Authorizer, sharesOwn: Bool = true,
        pause: Duration = .seconds(10)
    ) {
        table = EntryTable(informer, kind: Self.kind, pause: pause)
        (self.store, self.access, self.sharesOwn) = (store, access, sharesOwn)
    }

    package func change(
        _ make: @escaping @Sendable () -> AccessKey?, removing: @escaping @Sendable () -> [String]
    ) async throws(GoogleError) -> AccessKey? {
        var revoked: AccessKey?
        let key = try await table.change { () throws(GoogleError) -> (AccessKey?, EntryTable.Change) in
            // Read before `make` looks: `make` then sees these entries or newer ones, and a change over newer ones is refused.
            let known = table.entries
            guard let key = revoked ?? make() else { return (nil, .nothing) }
            // A revocation counts here at once, whatever etcd takes; ``shareOwn()`` tells the others later.
            if key.revokedAt != nil {
                revoked = key
                access.put(key)
            }
            return (key, Self.put(key, over: known[key.id]))
        } failure: { error in
            table.wake()
            return Self.refusal(error, isRevoked: revoked != nil)
        }
        if let key, access.key(key.id) == nil { access.put(key) }
        return key
    }

    private static func put(_ key: AccessKey, over stored: SharedRecord?) -> EntryTable.Change {
        // What is no JSON has nothing that would be kept.
        let record = key.record(over: stored.flatMap { JSONValue.ifValid($0.value) })
        return .put(key.id, record.encoded(), over: stored?.revision)
    }

    /// - Parameter error: nil: other nodes were quicker each time.
    private static func refusal(_ error: LogError?, isRevoked: Bool) -> GoogleError {
        let unknown: String
        switch error {
        case _ where isRevoked:
            let why = error?.description ?? "other nodes change this key all the time"
            unknown = "this node refuses it from now on, and tells the others when etcd takes it (\(why))"
        case .unknown(let sentence): unknown = sentence
        default:
            let why = error?.description ?? "other nodes change this key all the time"
            return GoogleError(503, "UNAVAILABLE", "Keys cannot be changed now: \(why)").with("Retry-After", "5")
        }
        return GoogleError(
            504, "DEADLINE_EXCEEDED", "It is not known whether the key was changed; list the keys: \(unknown)"
        ).with(detail: OutcomeMapping.outcome("KEY_PENDING", "unknown"))
    }

    // MARK: Following

    /// Takes what other nodes did, and copies it, until its task is cancelled.
    package func run() async {
        await table.follow { [self] record in
            hear(record)
        } pass: {
            let isCopied = await copyWaiting()
            return await shareOwn() && isCopied
        }
    }

    private func hear(_ record: SharedRecord) {
        let known = access.key(record.name.id)
        guard let key = Self.key(record, known?.key) else { return }
        if let known, known.isConfigured || known.key == key { return }
        access.put(key)
        waiting.withLock { $0[key.id] = key }
    }

    /// The key in a record; nil for a record that is not a key. If a newer program wrote grants that this one cannot
    /// read, the known key stays, but a revocation in the record still counts.
    private static func key(_ record: SharedRecord, _ known: AccessKey?) -> AccessKey? {
        guard let document = JSONValue.ifValid(record.value) else { return nil }
        if let key = try? AccessKey(record: document) {  // unreadable: handled below
            return key.id == record.name.id ? key.keepingRevocation(of: known) : nil
        }
        guard var key = known, let revoked = document["revoked"]?.string.flatMap(Timestamp.init) else { return nil }
        key.revokedAt = key.revokedAt ?? revoked
        return key
    }

    private func copyWaiting() async -> Bool {
        let keys = waiting.withLock { waiting in
            defer { waiting = [:] }
            return waiting
        }
        var isDone = true
        for key in keys.values where await !copy(key) {
            isDone = false
            waiting.withLock { $0[key.id] = $0[key.id] ?? key }
        }
        return isDone
    }

    private func copy(_ key: AccessKey) async -> Bool {
        do {
            _ = try await store.storeKey({ key }, record: { ($0.id, $0.record) }, committed: { _, _ in })
            return true
        } catch {
            return false
        }
    }

    /// Tells the cluster what only this node knows: keys made before there was a cluster, and revocations that etcd did
    /// not take, or has lost in a restore.
    private func shareOwn() async -> Bool {
        var isDone = true
        let known = table.entries
        for listed in access.keys where sharesOwn && !listed.isConfigured {
            let stored = known[listed.key.id]
            if stored != nil, listed.key.revokedAt == nil { continue }
            if let stored, JSONValue.ifValid(stored.value)?["revoked"]?.string != nil { continue }
            if listed.key.revokedAt != nil { _ = await copy(listed.key) }
            // A write that failed is tried again later.
            if (try? await table.make(Self.put(listed.key, over: stored))) != true { isDone = false }
        }
        return isDone
    }
}
