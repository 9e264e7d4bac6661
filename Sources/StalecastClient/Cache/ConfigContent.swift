/// Content of one answer of the server, for a scope and this installation: all values of one version, never mixed.
struct ConfigContent: Sendable, Equatable, Codable {
    /// Parameter name → value as text.
    @OrEmpty var entries: [String: String] = [:]
    /// Tag as the server spelled it; nil when it sent none.
    var etag: String?
    /// The template's version; nil when the server did not say.
    var version: Int64?
    @OrEmpty var experiments: [Experiment] = []
    @OrEmpty var rollouts: [Rollout] = []
    /// Parameter name → its personalization metadata as JSON text with sorted members, so that equal ones compare equal.
    @OrEmpty var personalization: [String: String] = [:]

    init(etag: String? = nil, version: Int64? = nil) { (self.etag, self.version) = (etag, version) }

    /// Values of an A/B test; the members official SDKs compare.
    struct Experiment: Sendable, Equatable, Codable {
        var id: String
        var variant: String
        var timeToLiveMillis: String
        var triggerTimeoutMillis: String
        var keys: [String]

        /// Rollouts appear among the experiments too, under these names, and are skipped when changes are looked for.
        var isRollout: Bool { id.hasPrefix("_exp_rollout") || id.hasPrefix("rollout") }
    }

    struct Rollout: Sendable, Equatable, Codable {
        var id: String
        var variant: String
        var keys: [String]
    }
}

extension ConfigContent {
    /// The parameters that differ between two contents as the official SDKs compute `updatedKeys`: added, removed, of
    /// another value, or of other personalization, rollout or experiment metadata.
    func keysDiffering(from other: ConfigContent) -> Set<String> {
        Self.differing(entries, other.entries)
            .union(Self.differing(personalization, other.personalization))
            .union(Self.differing(rolloutsByKey, other.rolloutsByKey))
            .union(Self.differing(experimentsByKey, other.experimentsByKey))
    }

    private static func differing<Value: Equatable>(_ a: [String: Value], _ b: [String: Value]) -> Set<String> {
        let changed = a.lazy.filter { b[$0.key] != $0.value }.map(\.key)
        return Set(changed).union(b.keys.lazy.filter { a[$0] == nil })
    }

    private var rolloutsByKey: [String: [String: String]] {
        rollouts.reduce(into: [:]) { byKey, rollout in
            for key in rollout.keys { byKey[key, default: [:]][rollout.id] = rollout.variant }
        }
    }

    private var experimentsByKey: [String: [String: [String]]] {
        experiments.filter { !$0.isRollout }.reduce(into: [:]) { byKey, experiment in
            let facts = [experiment.variant, experiment.timeToLiveMillis, experiment.triggerTimeoutMillis]
            for key in experiment.keys { byKey[key, default: [:]][experiment.id] = facts }
        }
    }
}
