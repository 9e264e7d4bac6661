import StalecastEdge
import StalecastHub
import StalecastStore
import StalecastWire

extension MetricsText {
    /// Writes which clients have the newest version of each scope. A version is never a label: every publish would
    /// leave series behind. Of the nodes of a cluster each shows its own, so that their sum is the cluster's.
    mutating func propagation(_ book: RolloutTracker, _ scopes: [Scope]) {
        let newest = scopes.compactMap { scope in
            book.own(of: scope, limit: 1)?.rolloutStatuses.first.map { (scope.labels, $0) }
        }
        func samples(_ label: String, _ values: (RolloutStatus) -> [(String, Int)]) -> Samples {
            newest.flatMap { labels, status in values(status).map { (labels + [(label, $0)], Double($1)) } }
        }
        family(
            "stalecast_propagation_streams", "Streams of the newest version's audience by how far it came.",
            samples("stage") {
                [("sent", $0.streams.told), ("backlogged", $0.streams.backlogged), ("left", $0.streams.left)]
            })
        family(
            "stalecast_propagation_clients",
            "Identified clients of the newest version's audience by the stage they have reached; `lost` are those of `left` "
                + "that went after they were told.",
            samples("stage") {
                [
                    ("fetched", $0.clients.fetched), ("active", $0.clients.active), ("failed", $0.clients.failed),
                    ("left", $0.clients.left), ("lost", $0.clients.lost),
                ]
            })
        family(
            "stalecast_propagation_audience", "Streams and clients at the newest version's announcement.",
            samples("population") { [("streams", $0.streams.streams), ("clients", $0.clients.audience)] })
        family(
            "stalecast_propagation_reached_seconds", "When shares of them had it; missing until they have.",
            newest.flatMap { labels, status in
                [("sent", status.sent), ("fetched", status.fetched), ("active", status.active)].flatMap {
                    stage, times in
                    [("0.5", times.t50), ("0.95", times.t95), ("0.99", times.t99)].compactMap { share, time in
                        time.map { (labels + [("stage", stage), ("share", share)], Double($0) / 1e9) }
                    }
                }
            })
        let seconds = book.seconds
        histograms(
            "stalecast_propagation_seconds", "From an announcement until streams and clients were on a rung.",
            [("sent", seconds.sent), ("fetched", seconds.fetched), ("active", seconds.active)].map {
                ([("stage", $0)], $1)
            })
        clients(book)
    }

    /// Writes the budgets of scopes that have one.
    mutating func herds(_ hub: Hub, _ scopes: [Scope]) {
        let herds = scopes.compactMap { scope in hub.herd(of: scope).map { (scope.labels, $0) } }
        family(
            "stalecast_herd_window_seconds", "What a message would ask clients to spread their fetches over.",
            herds.map { ($0, Double($1.windowMs) / 1000) })
        family(
            "stalecast_herd_budget", "Fetches per second they are spread for, by what experience says.",
            herds.map { ($0, Double($1.budget)) })
    }

    /// Writes the facts that our own subscribers saw of the newest version.
    mutating func canaries(_ sightings: [Scope: Canaries.Observation]) {
        family(
            "stalecast_canary_seconds",
            "From the announcement until a subscriber in the process had the message, and the answer to its fetch; "
                + "without the time for which a message was held back because the last one was younger than 0.1 s.",
            sightings.sorted { $0.key < $1.key }.flatMap { scope, seen in
                [("received", seen.received), ("fetched", seen.fetched)].compactMap { stageTimes, seconds in
                    seconds.map { (scope.labels + [("rung", stageTimes)], $0) }
                }
            })
    }

    private mutating func clients(_ book: RolloutTracker) {
        let (figures, claims) = (book.figures, book.claims)
        single("stalecast_clients", "Identified clients of the last 25 hours.", figures.known)
        single(
            "stalecast_clients_sampling_ratio", "The share of them that is counted; 1 is all.",
            1 / Double(figures.weight))
        family(
            "stalecast_clients_held", "Connected clients by how many versions they are behind.",
            figures.behind.sorted { $0.key < $1.key }.flatMap { scope, counts in
                zip(["0", "1", "2", "3", "4+", "unknown"], counts).map {
                    (scope.labels + [("behind", $0)], Double($1))
                }
            })
        family("stalecast_reports_total", "Reports of clients that were counted.", by: "state", claims.counted)
        family("stalecast_reports_refused_total", "Reports of clients that were not.", by: "reason", claims.refused)
    }
}

extension Scope {
    var labels: [(String, String)] {
        [("project", project.description), ("namespace", namespace.description)]
    }
}

extension MetricsText {
    /// Figures of the gates of open releases.
    mutating func gates(of releases: [Release], _ watch: ReleaseWatch) {
        let gates = releases.flatMap { release in
            watch.gates(of: release.scope, release.version).map { (release.scope.labels + [("gate", $0.name)], $0) }
        }
        func samples(_ value: (GateReading) -> Double?) -> Samples {
            gates.compactMap { labels, gate in value(gate).map { (labels, $0) } }
        }
        family(
            "stalecast_release_gate",
            "Value of a gate of an open release: percent, or of the gate prometheus its query's result.",
            samples(\.value))
        family("stalecast_release_gate_limit", "Limit of it, in the same unit.", samples(\.limit))
        family(
            "stalecast_release_gate_tripped", "1 while the gate is over its limit.",
            samples { $0.verdict == .tripped ? 1 : 0 })
    }
}
