import StalecastAccess
import StalecastControl
import StalecastHTTP
import StalecastRecords
import StalecastStore
import StalecastTestRecords
import StalecastTestSupport
import StalecastWire
import Testing

/// Keys of several nodes over one set of records.
@Suite(.timeLimit(.minutes(5))) struct SharedKeysTests {
    private final class Node: Sendable {
        let directory: TemporaryDirectory
        let store: TemplateStore
        let access = Authorizer(bootstrap: nil)
        let keys: SharedKeys
        private let task: Task<Void, Never>

        /// - Parameter own: keys that it has before it joins.
        private init(_ records: MemoryRecords, own: [AccessKey]) throws {
            directory = try TemporaryDirectory()
            store = try TemplateStore.open(StoreConfiguration(directory: directory.path))
            for key in own { access.put(key) }
            let informer = Informer(records, pause: .milliseconds(1))
            let keys = SharedKeys(informer, store, access, pause: .milliseconds(1))
            self.keys = keys
            task = Task {
                async let following: Void = informer.run()
                await keys.run()
                await following
            }
        }

        deinit { task.cancel() }

        /// A node that has read the records. A change waits for that, but not as long as a busy machine may need.
        static func ready(_ records: MemoryRecords, own: [AccessKey] = []) async throws -> Node {
            let node = try Node(records, own: own)
            try await eventually {
                do throws(GoogleError) { return try await node.change("none") { _ in } == nil } catch { return false }
            }
            return node
        }

        /// The name of a key; `revoked` for one that is.
        func name(_ id: String) -> String? {
            access.key(id).map { $0.key.revokedAt == nil ? $0.key.name : "revoked" }
        }

        func stored(_ id: String) throws -> AccessKey? {
            try store.keyRecords().map { try AccessKey(record: $0) }.first { $0.id == id }
        }

        func change(_ id: String, _ edit: @escaping @Sendable (inout AccessKey) -> Void) async throws(GoogleError)
            -> AccessKey?
        {
            try await keys.change { [access] in
                guard var key = access.key(id)?.key, key.revokedAt == nil else { return nil }
                edit(&key)
                return key
            } removing: {
                []
            }
        }
    }

    private static func made(_ name: String) -> AccessKey {
        var random = SystemRandomNumberGenerator()
        let made = APIKey(.secret, using: &random)
        return AccessKey(
            id: made.id, kind: .secret, name: name, grants: [Grant(actions: [.fetch])], secrets: [.init(made.digest)])
    }

    private static func make(_ key: AccessKey, at node: Node) async throws {
        _ = try await node.keys.change {
            key
        } removing: {
            []
        }
    }

    @Test func whatOneNodeMakesAllHaveAndKeep() async throws {
        let records = MemoryRecords()
        let (a, b) = (try await Node.ready(records), try await Node.ready(records))
        let key = Self.made("one")
        try await Self.make(key, at: a)
        #expect(a.name(key.id) == "one")
        try await eventually { try b.name(key.id) == "one" && b.stored(key.id) == key }
        _ = try await b.change(key.id) { $0.revokedAt = .now() }
        #expect(b.name(key.id) == "revoked")
        try await eventually { a.name(key.id) == "revoked" }
        #expect(try await a.change(key.id) { $0.name = "again" } == nil, "revoked for good")
    }

    @Test func changesOfTwoNodesAllCount() async throws {
        let records = MemoryRecords()
        let (a, b) = (try await Node.ready(records), try await Node.ready(records))
        let key = Self.made("")
        try await Self.make(key, at: a)
        try await eventually { b.name(key.id) != nil }
        await withTaskGroup { group in
            for number in 0..<10 {
                group.addTask {
                    // One that is always beaten would be refused: not of ten.
                    _ = try? await (number.isMultiple(of: 2) ? a : b).change(key.id) { $0.name += "x" }
                }
            }
        }
        try await eventually { a.name(key.id) == "xxxxxxxxxx" && b.name(key.id) == "xxxxxxxxxx" }
    }

    /// A revocation that etcd did not take counts at its node at once, and everywhere when etcd is back.
    @Test func aRevocationCountsAlsoWithoutTheRecords() async throws {
        let records = MemoryRecords()
        let (a, b) = (try await Node.ready(records), try await Node.ready(records))
        let key = Self.made("one")
        try await Self.make(key, at: a)
        try await eventually { b.name(key.id) == "one" }
        records.setAway(true)
        let error = await #expect(throws: GoogleError.self) {
            try await a.change(key.id) { $0.revokedAt = .now() }
        }
        #expect(error?.code == 504 && a.name(key.id) == "revoked" && b.name(key.id) == "one")
        let refused = await #expect(throws: GoogleError.self) { try await b.change(key.id) { $0.name = "two" } }
        #expect(refused?.code == 503)
        try await eventually { try a.stored(key.id)?.revokedAt != nil }
        records.setAway(false)
        try await eventually { b.name(key.id) == "revoked" }
    }

    @Test func keysFromBeforeTheClusterAndFromBeforeARestoreAreShared() async throws {
        let records = MemoryRecords()
        let key = Self.made("own")
        let a = try await Node.ready(records, own: [key])
        let b = try await Node.ready(records)
        try await eventually { b.name(key.id) == "own" }
        let before = try await records.all()
        _ = try await a.change(key.id) { $0.revokedAt = .now() }
        try await eventually { b.name(key.id) == "revoked" }
        records.restore(before.records, revision: before.revision)
        try await eventually {
            let record = try await records.records([RecordName("key", key.id)]).records.first
            return try JSONValue.parse(record?.value ?? Array("{}".utf8))["revoked"] != nil
        }
        #expect(a.name(key.id) == "revoked" && b.name(key.id) == "revoked")
    }
}
