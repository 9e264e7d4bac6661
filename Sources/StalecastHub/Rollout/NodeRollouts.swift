package import StalecastWire

/// Webhooks that hear a version and are sent to, by how far they are.
package struct WebhookCounts: SharedCounts, Sendable, Hashable {
    package var owed = 0
    package var delivered = 0
    /// Webhooks among the owed ones whose last attempt failed.
    package var failing = 0

    package init() {}

    package static let counts: [any WritableKeyPath<Self, Int> & Sendable] = [\.owed, \.delivered, \.failing]
    package static let leastCounts = 3
}

/// Report of one node about a scope to the others: how far the newest versions are among its own clients and webhooks.
package struct NodeRollouts: Sendable {
    /// Sequence of what it announced last.
    package let head: CommitSequence
    package let statuses: [VersionNumber: RolloutStatus]
    /// Webhooks that it delivers to, by how far they are with the newest version.
    package var webhooks: WebhookCounts?
    /// Open release, with its clients so far.
    package var release: (version: VersionNumber, clients: ReleaseClients)?

    /// - Parameter statuses: newest first. Each stage of a release announces its version: the newest of them counts.
    package init(head: CommitSequence, _ statuses: [RolloutStatus]) {
        self.head = head
        self.statuses = Dictionary(statuses.map { ($0.version, $0) }) { first, _ in first }
    }

    var newest: VersionNumber? { statuses.keys.max() }

    /// Document that other nodes read.
    package var json: JSONValue {
        var document: JSONObject = ["head": .int(head)]
        document["webhooks"] = webhooks?.shared
        if let release {
            document["release"] = [
                "version": .string(String(release.version)), "clients": release.clients.shared,
            ]
        }
        var members = JSONObject()
        for (version, status) in statuses.sorted(by: { $0.key > $1.key }) { members["\(version)"] = status.shared }
        document["ways"] = .object(members)
        return .object(document)
    }

    /// nil for what ``json`` did not make. Parts that cannot be read are missing: a newer node counts as well.
    package init?(json document: JSONValue) {
        guard let head = document["head"]?.int64, head > 0 else { return nil }
        self.init(
            head: CommitSequence(head),
            (document["ways"]?.object?.members ?? []).compactMap { number, status in
                VersionNumber(number).flatMap { RolloutStatus(shared: status, of: $0) }
            })
        webhooks = document["webhooks"].flatMap { WebhookCounts(shared: $0) }
        if let version = document["release"]?["version"]?.versionNumber,
            let clients = document["release"]?["clients"].flatMap({ ReleaseClients(shared: $0) })
        {
            release = (version, clients)
        }
    }
}
