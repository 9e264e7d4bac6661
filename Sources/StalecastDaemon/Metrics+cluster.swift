import StalecastCluster
import StalecastEdge
import StalecastEtcd
import StalecastRecords
import StalecastWire

extension MetricsText {
    /// Writes metrics of this node's work with the log and of the other nodes it knows.
    mutating func cluster(_ cluster: ClusterParts) async {
        let (follower, figures) = await (cluster.node.follower, cluster.node.figures)
        let epoch = follower.epoch?.description ?? ""
        family(
            "stalecast_cluster_info", "This node, and the history that it serves.",
            [([("cluster", cluster.name), ("node", cluster.node.name), ("epoch", epoch)], 1)])
        single("stalecast_cluster_ready", "1 when something may be published here.", follower.isReady ? 1 : 0)
        heads(follower.head.sequence, figures.newest)
        single(
            "stalecast_cluster_unverified_seconds", "Since etcd said last that the copy here is the newest.",
            await cluster.node.unverified / .seconds(1))
        log(figures)
        publishes(figures)
        waits(cluster.waits)
        histories(figures, cluster.formerCopies)
        assignments(cluster.nodes.assignments.figures)
        await others(cluster.nodes)
        etcd(cluster.etcdFigures)
        members(cluster.members.all)
    }

    private mutating func heads(_ here: CommitSequence, _ newest: CommitSequence) {
        single("stalecast_cluster_head", "Sequence of the newest entry that is applied here.", here)
        single("stalecast_cluster_log_head", "Of the newest entry heard of.", max(here, newest))
        single(
            "stalecast_cluster_lag_entries", "Entries heard of and not applied here.", newest > here ? newest - here : 0
        )
    }

    private mutating func log(_ figures: ClusterFigures) {
        family(
            "stalecast_cluster_head_checks_total", "Looks at the log's end, by what they found.", by: "outcome",
            figures.checks)
        family(
            "stalecast_cluster_follower_failures_total", "What following the log failed at, and tried again.",
            by: "kind", figures.failures)
        single("stalecast_cluster_watches_total", "Watches opened on the log.", figures.watches)
        single(
            "stalecast_cluster_contents_swept_total", "Long contents removed that no entry needed.",
            figures.sweptContents)
    }

    private mutating func publishes(_ figures: ClusterFigures) {
        family(
            "stalecast_cluster_appends_total", "Calls that propose an entry, by outcome.", by: "outcome",
            figures.appends)
        single("stalecast_cluster_publishes_unknown_total", "Publishes answered 504.", figures.unknownPublishes)
        family(
            "stalecast_cluster_publishes_resolved_total", "What became of them.", by: "outcome",
            [("committed", true), ("not_committed", false), ("unknown", nil)].map { ($0, figures.resolved[$1] ?? 0) })
    }

    private mutating func waits(_ waits: FreshnessTally) {
        family(
            "stalecast_cluster_waits_total",
            "Requests that waited for the log: for its newest entry, or for a cursor's; refused ones were answered 503.",
            waits.all.map { ([("for", $0.cause.rawValue), ("outcome", $0.outcome)], Double($0.count)) })
    }

    private mutating func histories(_ figures: ClusterFigures, _ formerCopies: Int) {
        single(
            "stalecast_cluster_histories_begun_total",
            "Times that this node began another history, because the log was not the one it followed.", figures.renewals
        )
        single("stalecast_cluster_former_copies", "Copies of former histories in the data directory.", formerCopies)
    }

    private mutating func assignments(_ assignments: Assignments.Figures) {
        family(
            "stalecast_cluster_duties", "Duties that this node should have, and those it has.",
            assignments.kinds.sorted { $0.key < $1.key }.flatMap { kind, counts in
                [("wanted", counts.wanted), ("held", counts.held)].map {
                    ([("kind", kind), ("state", $0)], Double($1))
                }
            })
        family(
            "stalecast_cluster_duties_unowned", "Duties of all nodes that no node has, as this one knows.",
            assignments.kinds.sorted { $0.key < $1.key }.map { ([("kind", $0.key)], Double($0.value.unowned)) })
        family(
            "stalecast_cluster_lease_seconds", "Until the ownership that ends first ends, unless it is renewed.",
            assignments.leaseLeft.map { [([], $0 / .seconds(1))] } ?? [])
    }

    private mutating func others(_ nodes: Membership) async {
        let (count, different) = nodes.counts
        single("stalecast_cluster_nodes", "Nodes that live, this one among them.", count)
        single(
            "stalecast_cluster_nodes_different", "Of these, how many are configured otherwise than this one.", different
        )
        single(
            "stalecast_cluster_records_current", "0 while this node does not hear what others tell.",
            await nodes.informer.problem == nil ? 1 : 0)
    }

    private mutating func etcd(_ figures: EtcdFigures) {
        let calls = EtcdPurpose.allCases.compactMap { purpose in figures.calls[purpose].map { (purpose, $0) } }
        family(
            "stalecast_cluster_etcd_requests_total", "Calls to etcd by what they are for, and outcome.",
            calls.flatMap { purpose, calls in
                EtcdFigures.Outcome.allCases.map {
                    ([("kind", purpose.rawValue), ("outcome", $0.rawValue)], Double(calls.outcomes[$0] ?? 0))
                }
            })
        histograms(
            "stalecast_cluster_etcd_request_seconds", "How long they took, whatever came of them.",
            calls.map { ([("kind", $0.rawValue)], $1.seconds) })
        single("stalecast_cluster_etcd_moves_total", "Times that calls went on to the next member.", figures.moves)
    }

    private mutating func members(_ members: [EtcdMembers.Member]) {
        family(
            "stalecast_cluster_etcd_members", "etcd's members as they were judged last.", by: "verdict",
            EtcdMembers.Member.words.map { word in (word, members.count { $0.word == word }) })
        family(
            "stalecast_cluster_etcd_database_bytes", "Size of a member's database, which has a quota.",
            members.compactMap { member in
                member.status.map { ([("member", member.endpoint.description)], Double($0.databaseBytes)) }
            })
    }
}
