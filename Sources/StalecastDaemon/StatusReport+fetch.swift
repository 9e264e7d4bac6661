import StalecastEdge
import StalecastWire

extension StatusReport {
    /// The member `fetch`: answers by state, what the cache holds and how often it served.
    func fetches(_ tally: FetchTally) -> JSONValue {
        var states = JSONObject()
        for state in FetchContent.State.allCases {
            let count = FetchDialect.allCases.reduce(0) { $0 + tally.answered($1, state) }
            states[state.rawValue] = .int(count)
        }
        let renderings = daemon.served.renderings
        return [
            "answered": .int(tally.total), "states": .object(states),
            "refused": .int(tally.refused.values.reduce(0, +)), "bytes": .int(tally.bytes),
            "cacheHits": .int(tally.cacheHits), "rendered": .int(tally.rendering.count),
            "renderings": .int(renderings.count), "renderingBytes": .int(renderings.byteCount),
            "installations": .int(tally.installations.values.reduce(0, +)),
        ]
    }
}
