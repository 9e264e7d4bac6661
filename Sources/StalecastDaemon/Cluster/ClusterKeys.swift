import StalecastAccess
import StalecastControl
import StalecastRecords
import StalecastStore
import StalecastWire
import Synchronization

/// API keys of a cluster: records of kind `key`, which every node takes and keeps a copy of for when etcd is away. Keys
/// are never removed, only revoked.
final class ClusterKeys: Sendable {
    private let board: Informer
    /// False at an edge, which takes keys over and changes none.
    private let shares: Bool
    private let store: TemplateStore
    private let access: Authorizer
    /// Keys that are not copied yet.
    private let waiting = Mutex<[String: AccessKey]>([:])
    private let wakes = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

    static let kind = "key"
    /// Before what etcd did not take is shared again.
    private static let sharingPause = Duration.seconds(10)
    /// Number of times a change is decided anew when another node was quicker.
    private static let attempts = 10

    init(_ nodes: ClusterNodes, _ store: TemplateStore, _ access: Authorizer) {
        board = nodes.board
        shares = !nodes.isEdge
        self.store = store
        self.access = access
    }

    /// Way in which Control changes a key: decided by this node's copy, and decided anew when that was not the newest.
    static func share(_ nodes: ClusterNodes, _ access: Authorizer) -> KeyShare {
        { [board = nodes.board] make in
            var revoked: AccessKey?
            for _ in 0..<attempts {
                // Before `make` looks: what it sees is as new as these, or newer, and then refused.
                let known = await board.byID(kind)
                guard let key = revoked ?? make() else { return nil }
                // A revocation counts here at once, whatever etcd takes; ``shareOwn()`` tells the others later.
                if key.revokedAt != nil {
                    revoked = key
                    access.put(key)
                }
                let (name, stored) = (RecordName(kind, key.id), known[key.id])
                // What is no JSON has nothing that would be kept.
                let record = key.record(over: stored.flatMap { try? JSONValue.parse($0.value) })
                do throws(LogError) {
                    guard case .done = try await board.put(record.encoded(), to: name, over: stored?.revision) else {
                        continue
                    }
                } catch {
                    if revoked != nil {
                        throw OutcomeUnknown(
                            "this node refuses it from now on, and tells the others when etcd takes it (\(error.description))"
                        )
                    }
                    if case .unknown(let sentence) = error { throw OutcomeUnknown(sentence) }
                    throw error
                }
                if access.key(key.id) == nil { access.put(key) }
                return key
            }
            throw LogError.notDone("other nodes change this key all the time")
        }
    }

    /// Takes what other nodes did, and copies it, until its task is cancelled.
    func run() async {
        await board.observe(Self.kind) { [self] change in
            defer { wakes.continuation.yield() }
            guard case .put(let record) = change else { return }
            let known = access.key(record.name.id)
            guard let key = Self.key(record, known?.key) else { return }
            if let known, known.isConfigured || known.key == key { return }
            access.put(key)
            waiting.withLock { $0[key.id] = key }
        }
        // Ends with this task: what etcd did not take is shared again, also when nothing changes.
        let ticker = Task { [wakes] in
            while !Task.isCancelled {
                try await Task.sleep(for: Self.sharingPause)
                wakes.continuation.yield()
            }
        }
        defer { ticker.cancel() }
        for await _ in wakes.stream {
            let keys = waiting.withLock { waiting in
                defer { waiting = [:] }
                return waiting
            }
            for key in keys.values { await copy(key) }
            if shares, await board.isRead { await shareOwn() }
        }
    }

    /// The key of a record as it counts here; nil for what is no key. A newer program may have written grants that this
    /// one cannot read: then its revocation counts all the same.
    private static func key(_ record: SharedRecord, _ known: AccessKey?) -> AccessKey? {
        guard let document = try? JSONValue.parse(record.value) else { return nil }
        if let key = try? AccessKey(record: document) {
            return key.id == record.name.id ? key.keepingRevocation(of: known) : nil
        }
        guard var key = known, let revoked = document["revoked"]?.string.flatMap(Timestamp.init) else { return nil }
        key.revokedAt = key.revokedAt ?? revoked
        return key
    }

    private func copy(_ key: AccessKey) async {
        do {
            _ = try await store.storeKey({ key }, record: { ($0.id, $0.record) }, committed: { _, _ in })
        } catch {
            // It is in the cluster, and copied at the next start.
            return
        }
    }

    /// Tells the cluster what only this node knows: keys made before there was a cluster, and revocations that etcd did
    /// not take, or has lost in a restore.
    private func shareOwn() async {
        let known = await board.byID(Self.kind)
        for listed in access.keys where !listed.isConfigured {
            let stored = known[listed.key.id]
            if stored != nil, listed.key.revokedAt == nil { continue }
            let document = stored.flatMap { try? JSONValue.parse($0.value) }
            if document?["revoked"]?.string != nil { continue }
            if listed.key.revokedAt != nil { await copy(listed.key) }
            let (name, record) = (RecordName(Self.kind, listed.key.id), listed.key.record(over: document))
            // If it is not done, it is tried again.
            _ = try? await board.put(record.encoded(), to: name, over: stored?.revision)
        }
    }
}

extension Informer {
    fileprivate func byID(_ kind: String) -> [String: SharedRecord] {
        Dictionary(all(kind).map { ($0.name.id, $0) }) { $1 }
    }
}
