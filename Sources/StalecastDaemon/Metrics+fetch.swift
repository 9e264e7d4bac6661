import StalecastEdge

extension MetricsText {
    /// What `:fetch`, Installations and the cache of finished answers have done.
    mutating func fetches(_ tally: FetchTally, renderings: (count: Int, byteCount: Int)) {
        let samples = FetchDialect.allCases.flatMap { dialect in
            FetchContent.State.allCases.map { state in
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
        single("stalecast_fetch_bytes_total", .counter, "Heads and bodies of fetch answers.", Double(tally.bytes))
        single(
            "stalecast_rendering_hits_total", .counter, "Fetches whose answer was finished already.",
            Double(tally.cacheHits))
        single("stalecast_renderings", .gauge, "Finished answers held now.", Double(renderings.count))
        single("stalecast_rendering_bytes", .gauge, "Bytes of them.", Double(renderings.byteCount))
        histogram(
            "stalecast_rendering_seconds", "Making an answer for one outcome of a version's conditions.",
            tally.rendering)
        family(
            "stalecast_installations_total", .counter, "Requests of Firebase Installations served.",
            FetchTally.InstallationEvent.allCases.map {
                ([("event", $0.rawValue)], Double(tally.installations[$0] ?? 0))
            })
    }
}
