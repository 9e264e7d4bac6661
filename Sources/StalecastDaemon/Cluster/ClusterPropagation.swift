import Crypto
import Foundation
import StalecastAccess
import StalecastHub
import StalecastRecords
import StalecastStore
import StalecastWebhooks
import StalecastWire
import Synchronization

/// Shares with the other nodes how versions come to clients. Each node keeps a record `way/<node>/<scope>` of what it
/// counts, under the lease with which it lives, and tells of clients that it answered and that are in no audience here
/// (`seen/<node>/<id>`).
final class ClusterPropagation: Sendable {
    private let nodes: Membership
    private let book: RolloutTracker
    private let delivery: WebhookDelivery
    private let store: TemplateStore
    private let scopes: [Scope]
    /// Counts of other nodes for the gates of a release.
    private let releases = Mutex<[String: [Scope: (version: VersionNumber, clients: ReleaseClients)]]>([:])
    private let written = Mutex<[Scope: (value: [UInt8], at: ContinuousClock.Instant)]>([:])
    /// Webhooks of other nodes that have a version.
    private let reaches = Mutex<[String: [Scope: (version: VersionNumber, reach: WebhookCounts)]]>([:])

    private static let rolloutStatus = "way"
    static let seen = "seen"
    /// Versions of a scope in its record.
    private static let newest = 4
    /// Seconds after an announcement in which a record is written each second; then each ten.
    private static let fresh = 120.0
    private static let rarely = Duration.seconds(10)
    /// A node whose watch broke off is told when it has another within this time.
    private static let seenLifetime = Duration.seconds(15)
    /// Number of keys, of 8 bytes, in one record.
    private static let keysInRecord = 5000

    init(
        _ nodes: Membership, _ book: RolloutTracker, _ delivery: WebhookDelivery, _ store: TemplateStore,
        _ scopes: [Scope]
    ) {
        self.nodes = nodes
        self.store = store
        self.book = book
        self.delivery = delivery
        self.scopes = scopes
    }

    /// Makes the ids of clients mean the same at all nodes, which know the control token and the epoch.
    static func shareKeys(_ token: SecretDigest, _ epoch: Epoch) {
        let bytes = Array(SHA256.hash(data: Array("clients \(token.hexadecimal) \(epoch)".utf8)))
        func word(_ from: Int) -> UInt64 { bytes[from..<from + 8].reduce(0) { $0 << 8 | UInt64($1) } }
        ClientIdentity.share((word(0), word(8)))
    }

    /// Until its task is cancelled.
    func run() async {
        book.beginSharing()
        await nodes.informer.observe(Self.rolloutStatus) { [self] in hearWay($0) }
        await nodes.informer.observe(Self.seen) { [self] change in
            if case .put(let record) = change { hearSeen(record) }
        }
        // Cancelled: the loop ends.
        while (try? await Task.sleep(for: .seconds(1))) != nil {
            book.setNodes(nodes.others)
            await tellSeen()
            for scope in scopes { await tellWay(scope) }
        }
    }

    /// Webhooks of all nodes that have a version.
    func webhooks(of scope: Scope, _ version: VersionNumber) async -> WebhookCounts {
        let own = await delivery.reach(of: scope, version)
        let alive = nodes.others
        return reaches.withLock { reaches in
            alive.reduce(into: own) { sum, node in
                guard let other = reaches[node]?[scope], other.version == version else { return }
                sum.owed += other.reach.owed
                sum.delivered += other.reach.delivered
                sum.failing += other.reach.failing
            }
        }
    }

    /// Counts of the other nodes' clients for the gates of a release, as they said last.
    func clientsElsewhere(ofRelease version: VersionNumber, in scope: Scope) -> ReleaseClients {
        let alive = nodes.others
        return releases.withLock { releases in
            alive.reduce(ReleaseClients()) { sum, node in
                guard let other = releases[node]?[scope], other.version == version else { return sum }
                return sum + other.clients
            }
        }
    }

    // MARK: Ways

    private func tellWay(_ scope: Scope) async {
        guard let (head, rolloutStatuses) = book.own(of: scope, limit: Self.newest), let newest = rolloutStatuses.first
        else { return }
        var document: JSONObject = ["head": .int(head)]
        let reach = await delivery.reach(of: scope, newest.version)
        document["webhooks"] = .array([reach.owed, reach.delivered, reach.failing].map { .int($0) })
        var members = JSONObject()
        // Each stage of a release announces its version: the newest counts.
        for rolloutStatus in rolloutStatuses where members["\(rolloutStatus.version)"] == nil {
            members["\(rolloutStatus.version)"] = rolloutStatus.shared
        }
        if let release = store.release(of: scope), release.isOpen {
            let clients = book.clients(ofRelease: release.version, in: scope)
            document["release"] = ["version": .string(String(release.version)), "clients": clients.shared]
        }
        document["ways"] = .object(members)
        let value = JSONValue.object(document).encoded()
        let last = written.withLock { $0[scope] }
        let isQuiet = newest.ageSeconds > Self.fresh
        if let last, last.value == value || isQuiet && last.at + Self.rarely > .now { return }
        guard let lease = nodes.lease, value.count <= SharedRecord.maxBytes else { return }
        let name = RecordName(Self.rolloutStatus, "\(nodes.node)/\(scope)")
        let revision = await nodes.informer.record(name)?.revision
        // If it is not done, it is tried again in a second.
        if case .done? = try? await nodes.informer.put(value, to: name, over: revision, lease: lease) {
            written.withLock { $0[scope] = (value, .now) }
        }
    }

    private func hearWay(_ change: Informer.Change) {
        switch change {
        case .put(let record):
            guard let (node, scope) = Self.parts(record.name), node != nodes.node,
                let document = try? JSONValue.parse(record.value), let head = document["head"]?.int64, head > 0
            else { return }
            let rolloutStatuses = (document["ways"]?.object?.members ?? []).compactMap { number, rolloutStatus in
                VersionNumber(number).flatMap { RolloutStatus(shared: rolloutStatus, of: $0) }
            }
            book.heard(node, of: scope, (CommitSequence(head), rolloutStatuses))
            hear(document["webhooks"], node, scope, rolloutStatuses.map(\.version).max())
            let release = document["release"]
            releases.withLock { releases in
                releases[node, default: [:]][scope] = release?["version"]?.versionNumber.flatMap { version in
                    release?["clients"].flatMap { ReleaseClients(shared: $0) }.map { (version, $0) }
                }
            }
        case .removed(let name):
            guard let (node, scope) = Self.parts(name) else { return }
            if node == nodes.node { return written.withLock { $0[scope] = nil } }
            book.heard(node, of: scope, nil)
            reaches.withLock { $0[node]?[scope] = nil }
            releases.withLock { $0[node]?[scope] = nil }
        case .complete: break
        }
    }

    private func hear(_ value: JSONValue?, _ node: String, _ scope: Scope, _ version: VersionNumber?) {
        let counts = (value?.array ?? []).map { Int(min(max($0.int64 ?? 0, 0), 1 << 32)) }
        guard counts.count == 3, let version else { return }
        var reach = WebhookCounts()
        (reach.owed, reach.delivered, reach.failing) = (counts[0], counts[1], counts[2])
        reaches.withLock { [reach] in $0[node, default: [:]][scope] = (version, reach) }
    }

    private static func parts(_ name: RecordName) -> (node: String, scope: Scope)? {
        let parts = name.id.split(separator: "/")
        guard parts.count == 3, let project = try? ProjectID(String(parts[1])),
            let namespace = try? Namespace(String(parts[2]))
        else { return nil }
        return (String(parts[0]), Scope(project: project, namespace: namespace))
    }

    // MARK: Sightings

    private struct Kind: Hashable {
        let scope: Scope
        let fetched: VersionNumber
        let active: VersionNumber
        let failed: VersionNumber
        let isCounted: Bool

        init(_ sighting: RolloutTracker.ForeignFetch) {
            (scope, fetched, active) = (sighting.scope, sighting.fetched, sighting.active)
            (failed, isCounted) = (sighting.failed, sighting.isCounted)
        }
    }

    /// Records of sightings a second, at most.
    private static let mostRecords = 16
    /// A kind takes as much of a record as so many keys.
    private static let keysOfKind = 24

    private func tellSeen() async {
        let seen = book.takeForeignFetches()
        if seen.isEmpty || nodes.others.isEmpty { return }
        var rows: [(kind: Kind, keys: [UInt64])] = []
        for (kind, seen) in Dictionary(grouping: seen, by: Kind.init).sorted(by: { $0.value.count > $1.value.count }) {
            for start in stride(from: 0, to: seen.count, by: Self.keysInRecord) {
                rows.append((kind, seen[start..<min(start + Self.keysInRecord, seen.count)].map(\.key)))
            }
        }
        // Without etcd they are lost: those clients are awaited until they fetch again, or leave.
        guard let lease = try? await nodes.grant(Self.seenLifetime) else { return }
        // What clients claim makes kinds: those of few wait for their next fetch when there are too many.
        for _ in 0..<Self.mostRecords where !rows.isEmpty {
            var (room, taken) = (Self.keysInRecord + Self.keysOfKind, 0)
            while taken < rows.count, rows[taken].keys.count + Self.keysOfKind <= room {
                room -= rows[taken].keys.count + Self.keysOfKind
                taken += 1
            }
            let value: JSONValue = [
                "node": .string(nodes.node), "seen": .array(rows[..<taken].map { Self.document($0.kind, $0.keys) }),
            ]
            rows.removeFirst(taken)
            // Below its own name: there an edge may write.
            let name = RecordName(Self.seen, "\(nodes.node)/\(Epoch.random())")
            _ = try? await nodes.informer.put(value.encoded(), to: name, over: nil, lease: lease)
        }
    }

    private static func document(_ kind: Kind, _ keys: [UInt64]) -> JSONValue {
        let bytes = keys.reduce(into: Data()) { bytes, key in
            withUnsafeBytes(of: key.littleEndian) { bytes.append(contentsOf: $0) }
        }
        var object: JSONObject = [
            "scope": .string("/\(kind.scope)"), "fetched": .string(String(kind.fetched)),
            "active": .string(String(kind.active)), "keys": .string(bytes.base64EncodedString()),
        ]
        if kind.failed > 0 { object["failed"] = .string(String(kind.failed)) }
        if !kind.isCounted { object["counted"] = false }
        return .object(object)
    }

    private func hearSeen(_ record: SharedRecord) {
        guard let document = try? JSONValue.parse(record.value), let node = document["node"]?.string,
            node != nodes.node
        else { return }
        for value in document["seen"]?.array ?? [] { hearSeen(value, wins: node < nodes.node) }
    }

    private func hearSeen(_ value: JSONValue, wins: Bool) {
        guard let (_, scope) = Self.parts(RecordName(Self.rolloutStatus, "x\(value["scope"]?.string ?? "")")),
            let fetched = value["fetched"]?.versionNumber, let active = value["active"]?.versionNumber,
            let keys = value["keys"]?.string.flatMap({ Data(base64Encoded: $0) })
        else { return }
        let bytes = [UInt8](keys)
        for start in stride(from: 0, to: bytes.count - bytes.count % 8, by: 8) {
            let key = bytes[start..<start + 8].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            book.seenElsewhere(
                RolloutTracker.ForeignFetch(
                    key: key, scope: scope, fetched: fetched, active: active,
                    failed: value["failed"]?.versionNumber ?? 0, isCounted: value["counted"]?.bool ?? true, wins: wins))
        }
    }
}
