import StalecastStore
import StalecastWire
import Synchronization

/// Changes of releases since start, by what made them.
final class ReleaseTally: Sendable {
    private let counts = Mutex<[String: Int]>([:])

    func count(_ event: Release.Event) {
        let author = event.by == Release.schedule ? "schedule" : event.by.hasPrefix("gate") ? "gate" : "operator"
        counts.withLock { $0[author, default: 0] += 1 }
    }

    fileprivate subscript(_ author: String) -> Int { counts.withLock { $0[author] ?? 0 } }
}

extension MetricsText {
    /// Writes the share that the newest release of each scope covers.
    mutating func releases(_ store: TemplateStore, _ tally: ReleaseTally, _ scopes: [Scope]) {
        family(
            "stalecast_release_percent",
            "Share of the clients that the newest release of a scope covers, in percent.",
            scopes.compactMap { scope in
                store.release(of: scope).map { (scope.labels, Double($0.covered) / 100) }
            })
        family(
            "stalecast_release_events_total", "Changes of releases, by what made them.", by: "by",
            ["schedule", "gate", "operator"].map { ($0, tally[$0]) })
    }
}

extension Release {
    /// The message to webhooks about its last event.
    var notice: (type: String, data: JSONObject)? {
        guard let event = events.last else { return nil }
        let word = event.kind.rawValue.lowercased().replacing("_", with: "-")
        let data: JSONObject = [
            "project": .string(scope.project.description), "namespace": .string(scope.namespace.description),
            "versionNumber": .string(String(version)), "baseVersionNumber": .string(String(base)),
            "state": .string(state.rawValue), "percent": .double(Double(covered) / 100), "by": .string(event.by),
            "reason": event.reason.map(JSONValue.string), "figures": event.figures,
            "successorVersionNumber": successor.map { .string(String($0)) },
        ]
        return ("release.\(word)", data)
    }
}
