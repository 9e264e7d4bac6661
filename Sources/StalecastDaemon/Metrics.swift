import StalecastEdge
import StalecastHub
import StalecastStore
import StalecastWire

/// Prometheus' text format 0.0.4, written family by family.
struct MetricsText {
    private(set) var text = ""

    enum Kind: String { case counter, gauge }

    /// One family with its samples; labels are given as pairs.
    mutating func family(
        _ name: String, _ kind: Kind, _ help: String, _ samples: [(labels: [(String, String)], value: Double)]
    ) {
        header(name, kind.rawValue, help)
        for sample in samples { line(name, sample.labels, sample.value) }
    }

    mutating func single(_ name: String, _ kind: Kind, _ help: String, _ value: Double) {
        family(name, kind, help, [([], value)])
    }

    mutating func single(_ name: String, _ kind: Kind, _ help: String, _ value: some BinaryInteger) {
        single(name, kind, help, Double(value))
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
        let number = value == value.rounded() && abs(value) < 1e15 ? "\(Int64(value))" : "\(value)"
        text += name + (inner.isEmpty ? "" : "{\(inner)}") + " \(number)\n"
    }

    private static func escaped(_ value: String) -> String {
        value.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
    }
}

extension MetricsText {
    mutating func edge(_ tally: EdgeTally, connections: Int, presence: Presence) {
        family(
            "stalecast_subscribers", .gauge, "Streams and held polls by topic.",
            presence.byTopic.sorted { $0.key < $1.key }.flatMap { topic, counts in
                Transport.allCases.map {
                    ([("topic", topic.description), ("transport", $0.rawValue)], Double(counts[$0] ?? 0))
                }
            })
        single("stalecast_streams", .gauge, "Event streams held now.", tally.streams)
        single("stalecast_polls", .gauge, "Long-polls held now.", tally.polls)
        single("stalecast_stalled_streams", .gauge, "Streams with unsent data.", tally.stalled)
        single("stalecast_connections", .gauge, "Connections of any kind on Edge.", connections)
        single("stalecast_connections_accepted_total", .counter, "Connections accepted.", tally.accepted)
        byReason(
            "stalecast_connections_refused_total", "Connections refused by a cap, or for their proxy.", tally.refused)
        byReason("stalecast_drops_total", "Connections let go, by reason.", tally.drops)
        family(
            "stalecast_deliveries_total", .counter, "Messages handed to a subscriber's socket.",
            Transport.allCases.map { ([("transport", $0.rawValue)], Double(tally.deliveries[$0] ?? 0)) })
        single("stalecast_coalesced_total", .counter, "Messages a newer one replaced.", tally.coalesced)
        single("stalecast_heartbeats_total", .counter, "Comments sent on silent streams.", tally.heartbeats)
        single(
            "stalecast_echoes_total", .counter, "Firebase messages said again after a burst.", tally.echoes)
        single("stalecast_handed_over_total", .counter, "Connections left to the Front.", tally.handedOver)
        histogram(
            "stalecast_publish_to_written_seconds", "From a commit's announcement to a subscriber's socket.",
            tally.publishToWritten)
    }

    private mutating func byReason(_ name: String, _ help: String, _ counts: [DropReason: Int]) {
        let samples = DropReason.allCases.filter { counts[$0] != nil }
        family(name, .counter, help, samples.map { ([("reason", $0.rawValue)], Double(counts[$0]!)) })
    }

    mutating func store(_ store: TemplateStore, canCommit: Bool) {
        let figures = store.figures
        family(
            "stalecast_publishes_total", .counter, "Publishes and rollbacks by outcome.",
            [
                ([("outcome", "published")], Double(figures.published)),
                ([("outcome", "rolled_back")], Double(figures.rolledBack)),
                ([("outcome", "version_mismatch")], Double(figures.mismatched)),
                ([("outcome", "disk_full")], Double(figures.refusedForSpace)),
                ([("outcome", "unknown")], Double(figures.unknownOutcomes)),
                ([("outcome", "refused")], Double(figures.refused)),
            ])
        single(
            "stalecast_publishes_waiting", .gauge, "Publishes waiting for the writer.", store.waitingPublishes)
        single("stalecast_versions_removed_total", .counter, "Versions retention removed.", figures.removed)
        single(
            "stalecast_checkpoints_failed_total", .counter, "Write-backs of the log that failed.",
            figures.failedCheckpoints)
        single("stalecast_store_ready", .gauge, "1 when a publish could be committed.", canCommit ? 1 : 0)
        if let free = store.freeBytes {
            single(
                "stalecast_store_free_bytes", .gauge, "Bytes that the data directory's disk still takes.",
                free)
        }
        single(
            "stalecast_store_began_anew", .gauge,
            "1 when this start found an older or another store than was served, and began a new history.",
            store.beganAnew ? 1 : 0)
        family(
            "stalecast_store_last_backup_timestamp_seconds", .gauge,
            "When the last backup was made, since the epoch; no sample before the first one.",
            store.lastBackup.map { [([], Double($0.microseconds) / 1e6)] } ?? [])
        single("stalecast_store_sequence", .gauge, "The last commit's sequence.", store.head())
        histogram("stalecast_store_commit_seconds", "Transaction begin to durable.", figures.commits)
        family(
            "stalecast_template_version", .gauge, "The newest version of a scope.",
            store.currentTemplates.scopes.map { scope in
                (
                    [("project", scope.project.description), ("namespace", scope.namespace.description)],
                    Double(store.currentTemplates[scope]?.version.rawValue ?? 0)
                )
            })
    }

    mutating func process(startedAt: Timestamp) {
        family(
            "stalecast_build_info", .gauge, "The running version and its commit.",
            [([("version", DaemonVersion.text), ("revision", DaemonVersion.revision)], 1)])
        single(
            "process_start_time_seconds", .gauge, "Start of the process since the epoch.",
            Double(startedAt.microseconds) / 1e6)
        let usage = ProcessUsage.now()
        single("process_cpu_seconds_total", .counter, "User and system time.", usage.cpuSeconds)
        single("process_resident_memory_bytes", .gauge, "Resident memory.", usage.residentBytes)
        single("process_open_fds", .gauge, "Open descriptors.", usage.descriptors)
        single("process_max_fds", .gauge, "Descriptors this process may have.", usage.maxDescriptors)
    }
}

extension MetricsText {
    mutating func reloads(_ log: ReloadLog) {
        let newest = log.newest
        single(
            "stalecast_config_last_reload_successful", .gauge,
            "0 while the newest configuration was refused and the one before it stays.", newest.problem == nil ? 1 : 0)
        single(
            "stalecast_config_last_reload_success_timestamp_seconds", .gauge,
            "When the configuration in force was read, since the epoch.", Double(newest.succeededAt.microseconds) / 1e6)
    }
}

extension MetricsText {
    /// Writes the counts of `:fetch`, Installations and the cache of finished answers.
    mutating func fetches(_ tally: FetchTally, renderings: (count: Int, byteCount: Int)) {
        let samples = FetchDialect.allCases.flatMap { dialect in
            FetchState.allCases.map { state in
                (
                    [("dialect", dialect.rawValue), ("state", state.rawValue.lowercased())],
                    Double(tally.answered(dialect, state))
                )
            }
        }
        family(
            "stalecast_fetches_total", .counter, "Fetches answered, by the app id's platform and the state told.",
            samples)
        family(
            "stalecast_fetches_refused_total", .counter, "Fetches answered with an error, by status.",
            tally.refused.sorted { $0.key < $1.key }.map { ([("status", String($0.key))], Double($0.value)) })
        single("stalecast_fetch_bytes_total", .counter, "Heads and bodies of fetch answers.", tally.bytes)
        single(
            "stalecast_rendering_hits_total", .counter, "Fetches whose answer was finished already.",
            tally.cacheHits)
        single("stalecast_renderings", .gauge, "Finished answers held now.", renderings.count)
        single("stalecast_rendering_bytes", .gauge, "Bytes of them.", renderings.byteCount)
        histogram(
            "stalecast_rendering_seconds", "Making an answer for one outcome of a version's conditions.",
            tally.rendering)
        family(
            "stalecast_installations_total", .counter, "Requests of Firebase Installations served.",
            FetchTally.InstallationEvent.allCases.map {
                ([("event", $0.rawValue)], Double(tally.installations[$0] ?? 0))
            })
        single(
            "stalecast_dropped_events_total", .counter,
            "Requests with analytics events of LaunchDarkly's SDKs, answered and dropped.", Double(tally.droppedEvents))
    }
}
