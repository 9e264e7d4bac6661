import StalecastHub
import StalecastStore
import StalecastWire

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
