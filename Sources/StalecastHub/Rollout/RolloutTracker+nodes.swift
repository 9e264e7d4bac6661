package import StalecastWire

/// Messages between nodes of a cluster about the progress of versions.
extension RolloutTracker {
    /// Client that another node may know: one outside of a version's audience here that came, got it or went, one that
    /// failed, or one that both nodes count.
    package struct ForeignFetch: Sendable, Hashable {
        /// Equal on all nodes; see ``ClientIdentity/share(secret:)``.
        package let key: UInt64
        package let scope: Scope
        package let fetched: VersionNumber
        package let active: VersionNumber
        /// Newest version that it says it could not activate; 0: none.
        package let failed: VersionNumber
        /// Whether the node that tells counts it among those that fetched; see ``ReleaseClients``.
        package let isCounted: Bool
        /// Whether it listens at the node that tells; nil where that node does not say: its program is older.
        package let isHere: Bool?
        /// Whether the node that tells goes on counting where two count the same client.
        package let wins: Bool
        /// Node that tells; empty for this one.
        package let node: String

        package init(
            key: UInt64, scope: Scope, fetched: VersionNumber, active: VersionNumber, failed: VersionNumber = 0,
            isCounted: Bool = true, isHere: Bool? = nil, wins: Bool = false, node: String = ""
        ) {
            (self.key, self.scope, self.fetched, self.active) = (key, scope, fetched, active)
            (self.failed, self.isCounted, self.isHere, self.wins) = (failed, isCounted, isHere, wins)
            self.node = node
        }
    }

    /// Begins to keep sightings for ``takeForeignFetches()``.
    package func beginSharing() { write { versions, _ in versions.sightings = Sightings() } }

    /// Sightings since the last call, each client once.
    package func takeForeignFetches() -> [ForeignFetch] { write { versions, _ in versions.sightings?.take() ?? [] } }

    /// Another node saw a client that may be of an audience here.
    package func seenElsewhere(_ foreignFetch: ForeignFetch) {
        write { $0.seenElsewhere(foreignFetch, at: $1) }
    }

    /// The newest ways of a scope as this node alone counts them, newest first, and what it has announced; nil before
    /// it announced anything.
    package func own(of scope: Scope, limit: Int) -> (head: CommitSequence, rolloutStatuses: [RolloutStatus])? {
        read { versions, now in
            guard let list = versions.rollouts[scope], let newest = list.last else { return nil }
            let rolloutStatuses = list.indices.suffix(limit).reversed().map { versions.propagation(scope, $0, at: now) }
            return (newest.sequence, rolloutStatuses)
        }
    }

    /// Takes the report of a node about a scope; nil: there is none any more.
    package func heard(_ node: String, of scope: Scope, _ report: NodeRollouts?) {
        others { $0.reports[node, default: [:]][scope] = report }
    }

    /// Sets the nodes that live besides this one. A node that is gone does not say which clients left it.
    package func setNodes(_ nodes: Set<String>) {
        let gone = others { others in
            defer { others.alive = nodes }
            return others.alive.subtracting(nodes)
        }
        if !gone.isEmpty { write { $0.forgetElsewhere(allBut: nodes, at: $1) } }
    }

    /// Whether other nodes live, as far as is known here.
    package var hasOtherNodes: Bool { others { !$0.alive.isEmpty } }

    /// Streams of a version's audience at the other nodes.
    package func reachElsewhere(of scope: Scope, _ version: VersionNumber) -> StreamCounts {
        others { others in
            others.reports(of: scope).reduce(into: StreamCounts()) { sum, report in
                if let rolloutStatus = report.statuses[version] { sum.merge(rolloutStatus.streams) }
            }
        }
    }

    /// Webhooks that the other nodes deliver to and that hear a version, as they said last.
    package func webhooksElsewhere(of scope: Scope, _ version: VersionNumber) -> WebhookCounts {
        others { others in
            others.reports(of: scope).filter { $0.newest == version }.compactMap(\.webhooks).reduce(.init(), +)
        }
    }

    /// Counts of the other nodes' clients for the gates of a release, as they said last.
    package func clientsElsewhere(ofRelease version: VersionNumber, in scope: Scope) -> ReleaseClients {
        others { others in
            others.reports(of: scope).compactMap(\.release).filter { $0.version == version }.map(\.clients)
                .reduce(.init(), +)
        }
    }
}
