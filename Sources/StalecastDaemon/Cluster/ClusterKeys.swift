import StalecastAccess
import StalecastCluster
import StalecastControl
import StalecastStore
import StalecastWire
import Synchronization

/// API keys of a cluster: records of kind `key`, which every node takes and keeps a copy of for when etcd is away. Keys
/// are never removed, only revoked.
final class ClusterKeys: Sendable {
    private let board: RecordBoard
    private let store: TemplateStore
    private let access: Authorizer
    /// Keys that are not copied yet.
    private let waiting = Mutex<[String: AccessKey]>([:])
    private let wakes = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

    private static let kind = "key"
    /// So often a change is decided anew when another node was quicker.
    private static let attempts = 10

    init(_ nodes: ClusterNodes, _ store: TemplateStore, _ access: Authorizer) {
        board = nodes.board
        self.store = store
        self.access = access
    }

    /// How Control changes a key: decided by what this node knows, and decided anew when that was not the newest.
    static func share(_ nodes: ClusterNodes, _ access: Authorizer) -> KeyShare {
        { [board = nodes.board] make in
            for _ in 0..<attempts {
                // Before `make` looks: what it sees is as new as these, or newer, and then refused.
                let known = await board.byID(kind)
                guard let key = make() else { return nil }
                let (name, stored) = (RecordName(kind, key.id), known[key.id])
                // What is no JSON has nothing that would be kept.
                let record = key.record(over: stored.flatMap { try? JSONValue.parse($0.value) })
                do throws(LogError) {
                    guard case .done = try await board.put(record.encoded(), to: name, over: stored?.revision) else {
                        continue
                    }
                } catch {
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
            // What is no key is nobody's.
            guard case .put(let record) = change, let document = try? JSONValue.parse(record.value),
                let key = try? AccessKey(record: document), key.id == record.name.id
            else { return }
            if let known = access.key(key.id), known.isConfigured || known.key == key { return }
            access.put(key)
            waiting.withLock { $0[key.id] = key }
        }
        for await _ in wakes.stream {
            let keys = waiting.withLock { waiting in
                defer { waiting = [:] }
                return waiting
            }
            for key in keys.values { await copy(key) }
            if await board.isRead { await shareOwn() }
        }
    }

    private func copy(_ key: AccessKey) async {
        do {
            _ = try await store.storeKey({ key }, record: { ($0.id, $0.record) }, committed: { _ in })
        } catch {
            // It is in the cluster, and copied at the next start.
            return
        }
    }

    /// Those that were made before there was a cluster.
    private func shareOwn() async {
        let known = await board.byID(Self.kind)
        for listed in access.keys where !listed.isConfigured && known[listed.key.id] == nil {
            let name = RecordName(Self.kind, listed.key.id)
            // If it is not done, it is tried again at the next change.
            _ = try? await board.put(listed.key.record.encoded(), to: name, over: nil)
        }
    }
}

extension RecordBoard {
    fileprivate func byID(_ kind: String) -> [String: SharedRecord] {
        Dictionary(all(kind).map { ($0.name.id, $0) }) { $1 }
    }
}
