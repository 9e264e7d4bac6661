import StalecastEdge
import StalecastHub
import StalecastStore
import StalecastWire

/// Prometheus' text format 0.0.4, written family by family.
struct MetricsText {
    private(set) var text = ""

    typealias Samples = [(labels: [(String, String)], value: Double)]

    /// One family with its samples; labels are given as pairs. By Prometheus's convention a name that ends with `_total`
    /// is a counter's, any other a gauge's.
    mutating func family(_ name: String, _ help: String, _ samples: Samples) {
        header(name, name.hasSuffix("_total") ? "counter" : "gauge", help)
        for sample in samples { line(name, sample.labels, sample.value) }
    }

    /// A family with one sample for each case of the label.
    mutating func family<Label: RawRepresentable<String> & CaseIterable & Hashable>(
        _ name: String, _ help: String, by label: String, _ counts: [Label: some BinaryInteger]
    ) {
        family(name, help, Label.allCases.map { ([(label, $0.rawValue)], Double(counts[$0] ?? 0)) })
    }

    /// A family with one sample for each value of the label, in this order.
    mutating func family(_ name: String, _ help: String, by label: String, _ values: [(String, Double)]) {
        family(name, help, values.map { ([(label, $0)], $1) })
    }

    mutating func family(_ name: String, _ help: String, by label: String, _ counts: [(String, some BinaryInteger)]) {
        family(name, help, by: label, counts.map { ($0, Double($1)) })
    }

    /// A family with one sample for each value of the label, sorted.
    mutating func family<Label: Comparable & Hashable>(
        _ name: String, _ help: String, by label: String, sorted counts: [Label: some BinaryInteger]
    ) {
        family(name, help, by: label, counts.sorted { $0.key < $1.key }.map { ("\($0)", $1) })
    }

    mutating func single(_ name: String, _ help: String, _ value: Double) { family(name, help, [([], value)]) }

    mutating func single(_ name: String, _ help: String, _ value: some BinaryInteger) {
        single(name, help, Double(value))
    }

    /// Writes a histogram in Prometheus's form: buckets add up.
    mutating func histogram(_ name: String, _ help: String, _ histogram: Histogram) {
        histograms(name, help, [([], histogram)])
    }

    mutating func histograms(
        _ name: String, _ help: String, _ samples: [(labels: [(String, String)], value: Histogram)]
    ) {
        header(name, "histogram", help)
        for (labels, histogram) in samples {
            var total = 0
            for (index, count) in histogram.counts.enumerated() {
                total += count
                let bound = index < histogram.bounds.count ? "\(histogram.bounds[index])" : "+Inf"
                line("\(name)_bucket", labels + [("le", bound)], Double(total))
            }
            line("\(name)_sum", labels, histogram.sum)
            line("\(name)_count", labels, Double(total))
        }
    }

    private mutating func header(_ name: String, _ kind: String, _ help: String) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind)\n"
    }

    private mutating func line(_ name: String, _ labels: [(String, String)], _ value: Double) {
        let inner = labels.map { "\($0.0)=\"\(Self.escaped($0.1))\"" }.joined(separator: ",")
        // Int64 of a Double beyond its range would end the process.
        let number = value == value.rounded() && abs(value) < 1e15 ? "\(Int64(value))" : "\(value)"
        text += name + (inner.isEmpty ? "" : "{\(inner)}") + " \(number)\n"
    }

    private static func escaped(_ value: String) -> String {
        value.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
    }
}

extension [DropReason: Int] {
    /// Reasons that were met, in the order of their declaration.
    var inOrder: [(String, Int)] {
        DropReason.allCases.compactMap { reason in self[reason].map { (reason.rawValue, $0) } }
    }
}

extension MetricsText {
    mutating func edge(_ tally: EdgeTally, connections: Int, presence: Presence) {
        family(
            "stalecast_subscribers", "Streams and held polls by topic.",
            presence.byTopic.sorted { $0.key < $1.key }.flatMap { topic, counts in
                Transport.allCases.map {
                    ([("topic", topic.description), ("transport", $0.rawValue)], Double(counts[$0] ?? 0))
                }
            })
        single("stalecast_streams", "Event streams held now.", tally.streams)
        single("stalecast_polls", "Long-polls held now.", tally.polls)
        single("stalecast_stalled_streams", "Streams with unsent data.", tally.stalled)
        single("stalecast_connections", "Connections of any kind on Edge.", connections)
        single("stalecast_connections_accepted_total", "Connections accepted.", tally.accepted)
        family(
            "stalecast_connections_refused_total", "Connections refused by a cap, or for their proxy.", by: "reason",
            tally.refused.inOrder)
        family("stalecast_drops_total", "Connections let go, by reason.", by: "reason", tally.drops.inOrder)
        family(
            "stalecast_deliveries_total", "Messages handed to a subscriber's socket.", by: "transport", tally.deliveries
        )
        single("stalecast_coalesced_total", "Messages a newer one replaced.", tally.coalesced)
        single("stalecast_heartbeats_total", "Comments sent on silent streams.", tally.heartbeats)
        single("stalecast_echoes_total", "Firebase messages said again after a burst.", tally.echoes)
        single("stalecast_handed_over_total", "Connections left to the Front.", tally.handedOver)
        histogram(
            "stalecast_publish_to_written_seconds", "From a commit's announcement to a subscriber's socket.",
            tally.publishToWritten)
    }

    mutating func store(_ store: TemplateStore, canCommit: Bool) {
        let figures = store.figures
        family(
            "stalecast_publishes_total", "Publishes and rollbacks by outcome.", by: "outcome",
            [
                ("published", figures.published), ("rolled_back", figures.rolledBack),
                ("version_mismatch", figures.mismatched), ("disk_full", figures.refusedForSpace),
                ("unknown", figures.unknownOutcomes), ("refused", figures.refused),
            ])
        single("stalecast_publishes_waiting", "Publishes waiting for the writer.", store.waitingPublishes)
        single("stalecast_versions_removed_total", "Versions retention removed.", figures.removed)
        single("stalecast_checkpoints_failed_total", "Write-backs of the log that failed.", figures.failedCheckpoints)
        single("stalecast_store_ready", "1 when a publish could be committed.", canCommit ? 1 : 0)
        if let free = store.freeBytes {
            single("stalecast_store_free_bytes", "Bytes that the data directory's disk still takes.", free)
        }
        single(
            "stalecast_store_began_anew",
            "1 when this start found an older or another store than was served, and began a new history.",
            store.beganAnew ? 1 : 0)
        family(
            "stalecast_store_last_backup_timestamp_seconds",
            "When the last backup was made, since the epoch; no sample before the first one.",
            store.lastBackup.map { [([], Double($0.microseconds) / 1e6)] } ?? [])
        single("stalecast_store_sequence", "The last commit's sequence.", store.head())
        histogram("stalecast_store_commit_seconds", "Transaction begin to durable.", figures.commits)
        family(
            "stalecast_template_version", "The newest version of a scope.",
            store.currentTemplates.scopes.map { scope in
                (scope.labels, Double(store.currentTemplates[scope]?.version.rawValue ?? 0))
            })
    }

    mutating func process(startedAt: Timestamp) {
        family(
            "stalecast_build_info", "The running version and its commit.",
            [([("version", DaemonVersion.text), ("revision", DaemonVersion.revision)], 1)])
        single(
            "process_start_time_seconds", "Start of the process since the epoch.", Double(startedAt.microseconds) / 1e6)
        let usage = ProcessUsage.now()
        single("process_cpu_seconds_total", "User and system time.", usage.cpuSeconds)
        single("process_resident_memory_bytes", "Resident memory.", usage.residentBytes)
        single("process_open_fds", "Open descriptors.", usage.descriptors)
        single("process_max_fds", "Descriptors this process may have.", usage.maxDescriptors)
    }
}

extension MetricsText {
    mutating func reloads(_ log: ReloadLog) {
        let newest = log.newest
        single(
            "stalecast_config_last_reload_successful",
            "0 while the newest configuration was refused and the one before it stays.", newest.problem == nil ? 1 : 0)
        single(
            "stalecast_config_last_reload_success_timestamp_seconds",
            "When the configuration in force was read, since the epoch.", Double(newest.succeededAt.microseconds) / 1e6)
    }
}

extension MetricsText {
    /// Writes the counts of `:fetch`, Installations and the cache of finished answers.
    mutating func fetches(_ tally: FetchTally, renderings: (count: Int, byteCount: Int)) {
        let samples = FetchDialect.allCases.flatMap { dialect in
            FetchState.allCases.map { state in
                let labels = [("dialect", dialect.rawValue), ("state", state.rawValue.lowercased())]
                return (labels, Double(tally.answered(dialect, state)))
            }
        }
        family("stalecast_fetches_total", "Fetches answered, by the app id's platform and the state told.", samples)
        family(
            "stalecast_fetches_refused_total", "Fetches answered with an error, by status.", by: "status",
            sorted: tally.refused)
        single("stalecast_fetch_bytes_total", "Heads and bodies of fetch answers.", tally.bytes)
        single("stalecast_rendering_hits_total", "Fetches whose answer was finished already.", tally.cacheHits)
        single("stalecast_renderings", "Finished answers held now.", renderings.count)
        single("stalecast_rendering_bytes", "Bytes of them.", renderings.byteCount)
        histogram(
            "stalecast_rendering_seconds", "Making an answer for one outcome of a version's conditions.",
            tally.rendering)
        family(
            "stalecast_installations_total", "Requests of Firebase Installations served.",
            by: "event", tally.installations)
        single(
            "stalecast_dropped_events_total",
            "Requests with analytics events of LaunchDarkly's SDKs, answered and dropped.", Double(tally.droppedEvents))
    }
}
