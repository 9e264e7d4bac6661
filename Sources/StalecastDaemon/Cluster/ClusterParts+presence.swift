import Glibc
import Logging
import StalecastAccess
import StalecastCluster
import StalecastControl
import StalecastEdge
import StalecastEtcd
import StalecastHub
import StalecastRecords
import StalecastWire

/// Facts that this node tells the other nodes, and the use that it makes of theirs.
extension ClusterParts {
    /// Records that an edge has a use for: nodes, keys, messages, and clients that were seen elsewhere.
    private static let kindsOfEdges: Set = [
        NodeRecord.kind, SharedKeys.kind, MessageRelay.kind, SharedRollouts.sightings,
    ]

    static func membership(
        _ connection: ClusterConnection, _ configuration: Configuration, _ logger: Logger
    ) -> Membership {
        let isEdge = configuration.isEdge
        let records = EtcdRecords(
            connection.client, cluster: configuration.cluster.name, kinds: isEdge ? kindsOfEdges : nil)
        return Membership(configuration.cluster.effectiveNode, isEdge: isEdge, records, clock: timeSinceBoot) {
            logger.warning(
                "a node is configured differently",
                metadata: [
                    "node": "\($0.node)", "in": "\($0.settings.joined(separator: ", "))", "theirs": "\($0.theirs)",
                    "ours": "\($0.ours)",
                ])
        }
    }

    /// Time of a clock that goes on while the machine sleeps.
    private static let timeSinceBoot: @Sendable () -> Duration = {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    /// Marks that nodes compare to see that they are configured alike.
    ///
    /// - Throws: ``StartError`` when the key of the webhooks' secrets cannot be read.
    func marks(of configuration: Configuration, _ token: TokenFile) throws(StartError) -> [String: String] {
        var marks = configuration.sharedSettings
        // An edge has its own token and no key of the webhooks.
        if configuration.isEdge { return marks }
        marks["control.token"] = configuration.control.tokenEnabled ? try vault.mark(of: token.digest) : "none"
        return marks
    }

    /// Tells the others how this node is configured, from now on.
    func describe(_ marks: [String: String]) {
        nodes.update {
            ($0.settings, $0.configurationHash, $0.isEdge) = (marks, Self.hash(marks), isEdge)
            $0.addresses["control"] = cluster.advertise
        }
    }

    /// One whose store takes nothing for longer gives its assignments to others: what it does not know it cannot
    /// deliver.
    private static let longestStall: Duration = .seconds(10)

    /// Keeps what the other nodes are told, and takes in what they tell.
    func count(_ parts: Daemon.Parts) async {
        while !Task.isCancelled {
            let presence = await parts.edge.presence()
            let (head, isStalled) = (await node.follower.head, await node.stalledFor > Self.longestStall)
            let unverified = await knownAge()?.unverified
            nodes.update { record in
                record.version = DaemonVersion.text
                (record.head, record.isLeaving) = (head, isStalled)
                record.note(delay: etcdDelay, unverified: unverified)
                record.topics = [:]
                for (topic, transports) in presence.counts.values.joined() {
                    record.topics[topic, default: 0] += Int64(transports.values.reduce(0, +))
                }
                record.subscribers = Int64(parts.edge.tally.streams + parts.edge.tally.polls)
            }
            tellHub(parts)
            // Cancelled: the loop ends.
            try? await Task.sleep(for: .seconds(1))
        }
    }

    private static func hash(_ settings: [String: String]) -> String {
        let text = settings.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: "\n")
        return String(SecretDigest(of: text).hexadecimal.prefix(16))
    }

    /// Windows over which clients spread their fetches are for the clients of all nodes.
    private func tellHub(_ parts: Daemon.Parts) {
        guard parts.hub.countsSubscribers else { return }
        var elsewhere: [Scope: Int] = [:]
        for binding in parts.hub.bindings {
            let count = nodes.subscribersElsewhere(binding.name)
            for scope in binding.scopes where count > 0 { elsewhere[scope, default: 0] += count }
        }
        parts.hub.count(elsewhere, of: self)
    }
}
