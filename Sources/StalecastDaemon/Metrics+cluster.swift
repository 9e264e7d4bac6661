import StalecastCluster
import StalecastEdge
import StalecastEtcd
import StalecastRecords
import StalecastWire

extension MetricsText {
    /// Writes a node's work with its log, and its knowledge of the other nodes.
    mutating func cluster(_ cluster: ClusterParts) async {
        let (follower, figures) = await (cluster.node.follower, cluster.node.figures)
        family(
            "stalecast_cluster_info", .gauge, "This node, and the history that it serves.",
            [
                (
                    [
                        ("cluster", cluster.name), ("node", cluster.node.name),
                        ("epoch", follower.epoch?.description ?? ""),
                    ], 1
                )
            ])
        single(
            "stalecast_cluster_ready", .gauge, "1 when something may be published here.", follower.isReady ? 1 : 0)
        heads(follower.head.sequence, figures.newest)
        single(
            "stalecast_cluster_unverified_seconds", .gauge, "Since etcd said last that the copy here is the newest.",
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
        single("stalecast_cluster_head", .gauge, "Sequence of the newest entry that is applied here.", here)
        single("stalecast_cluster_log_head", .gauge, "Of the newest entry heard of.", max(here, newest))
        single(
            "stalecast_cluster_lag_entries", .gauge, "Entries heard of and not applied here.",
            newest > here ? newest - here : 0)
    }

    private mutating func log(_ figures: ClusterFigures) {
        family(
            "stalecast_cluster_head_checks_total", .counter, "Looks at the log's end, by what they found.",
            ClusterFigures.Check.allCases.map { ([("outcome", $0.rawValue)], Double(figures.checks[$0] ?? 0)) })
        family(
            "stalecast_cluster_follower_failures_total", .counter, "What following the log failed at, and tried again.",
            ClusterFigures.Failure.allCases.map { ([("kind", $0.rawValue)], Double(figures.failures[$0] ?? 0)) })
        single("stalecast_cluster_watches_total", .counter, "Watches opened on the log.", figures.watches)
        single(
            "stalecast_cluster_contents_swept_total", .counter, "Long contents removed that no entry needed.",
            figures.sweptContents)
    }

    private mutating func publishes(_ figures: ClusterFigures) {
        family(
            "stalecast_cluster_appends_total", .counter, "Calls that propose an entry, by outcome.",
            ClusterFigures.Append.allCases.map { ([("outcome", $0.rawValue)], Double(figures.appends[$0] ?? 0)) })
        single(
            "stalecast_cluster_publishes_unknown_total", .counter, "Publishes answered 504.",
            figures.unknownPublishes)
        family(
            "stalecast_cluster_publishes_resolved_total", .counter, "What became of them.",
            [("committed", true), ("not_committed", false), ("unknown", nil)].map { word, key in
                ([("outcome", word)], Double(figures.resolved[key] ?? 0))
            })
    }

    private mutating func waits(_ waits: FreshnessTally) {
        family(
            "stalecast_cluster_waits_total", .counter,
            "Requests that waited for the log: for its newest entry, or for a cursor's; refused ones were answered 503.",
            waits.all.map { ([("for", $0.cause.rawValue), ("outcome", $0.outcome)], Double($0.count)) })
    }

    private mutating func histories(_ figures: ClusterFigures, _ formerCopies: Int) {
        single(
            "stalecast_cluster_histories_begun_total", .counter,
            "Times that this node began another history, because the log was not the one it followed.",
            figures.renewals)
        single(
            "stalecast_cluster_former_copies", .gauge, "Copies of former histories in the data directory.",
            formerCopies)
    }

    private mutating func assignments(_ assignments: Assignments.Figures) {
        family(
            "stalecast_cluster_duties", .gauge, "Duties that this node should have, and those it has.",
            assignments.kinds.sorted { $0.key < $1.key }.flatMap { kind, counts in
                [("wanted", counts.wanted), ("held", counts.held)].map {
                    ([("kind", kind), ("state", $0.0)], Double($0.1))
                }
            })
        family(
            "stalecast_cluster_duties_unowned", .gauge, "Duties of all nodes that no node has, as this one knows.",
            assignments.kinds.sorted { $0.key < $1.key }.map { ([("kind", $0.key)], Double($0.value.unowned)) })
        family(
            "stalecast_cluster_lease_seconds", .gauge,
            "Until the ownership that ends first ends, unless it is renewed.",
            assignments.leaseLeft.map { [([], $0 / .seconds(1))] } ?? [])
    }

    private mutating func others(_ nodes: Membership) async {
        let (count, different) = nodes.counts
        single("stalecast_cluster_nodes", .gauge, "Nodes that live, this one among them.", count)
        single(
            "stalecast_cluster_nodes_different", .gauge, "Of these, how many are configured otherwise than this one.",
            different)
        single(
            "stalecast_cluster_records_current", .gauge, "0 while this node does not hear what others tell.",
            await nodes.informer.problem == nil ? 1 : 0)
    }

    private mutating func etcd(_ figures: EtcdFigures) {
        let calls = EtcdPurpose.allCases.compactMap { purpose in figures.calls[purpose].map { (purpose, $0) } }
        family(
            "stalecast_cluster_etcd_requests_total", .counter, "Calls to etcd by what they are for, and outcome.",
            calls.flatMap { purpose, calls in
                EtcdFigures.Outcome.allCases.map {
                    ([("kind", purpose.rawValue), ("outcome", $0.rawValue)], Double(calls.outcomes[$0] ?? 0))
                }
            })
        histograms(
            "stalecast_cluster_etcd_request_seconds", "How long they took, whatever came of them.",
            calls.map { ([("kind", $0.rawValue)], $1.seconds) })
        single(
            "stalecast_cluster_etcd_moves_total", .counter, "Times that calls went on to the next member.",
            figures.moves)
    }

    private mutating func members(_ members: [EtcdMembers.Member]) {
        family(
            "stalecast_cluster_etcd_members", .gauge, "etcd's members as they were judged last.",
            EtcdMembers.Member.words.map { word in
                ([("verdict", word)], Double(members.count { $0.word == word }))
            })
        family(
            "stalecast_cluster_etcd_database_bytes", .gauge, "Size of a member's database, which has a quota.",
            members.compactMap { member in
                member.status.map { ([("member", member.endpoint.description)], Double($0.databaseBytes)) }
            })
    }
}
