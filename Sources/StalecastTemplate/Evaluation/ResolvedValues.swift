package import StalecastWire

/// Values that instances with one outcome get from a version of a template.
package struct ResolvedValues: Sendable, Hashable {
    /// Places by their keys, ascending: the place of each among the template's keys and that of its value among its
    /// texts.
    package fileprivate(set) var places: [Place] = []
    /// `{"rolloutId","variantId","affectedParameterKeys"}` for each rollout that applies to the instance; `variantId`
    /// is `enabled` or `control`.
    package private(set) var rolloutMetadata: [JSONValue] = []
    /// Descriptions of the experiments in which the instance takes part, as SDKs expect them; ids begin with `_exp_`.
    package private(set) var experimentDescriptions: [JSONValue] = []
    private let keys: [String]
    private let texts: [String]

    fileprivate init(of template: CompiledTemplate) {
        keys = template.keys
        texts = template.texts
    }

    /// A key with a value, by their places in the template they are of.
    package struct Place: Sendable, Hashable {
        package let key: Int
        package let text: Int
    }

    /// Sorted by key; an empty text is a value like any other.
    package var entries: [Entry] { places.map { Entry(key: keys[$0.key], value: texts[$0.text]) } }

    package struct Entry: Sendable, Hashable {
        package let key: String
        package let value: String
    }

    /// The members of a fetch answer: `entries`, `experimentDescriptions`, `rolloutMetadata`, the empty ones left out.
    package var members: JSONObject {
        let entries = entries.reduce(into: JSONObject()) { $0[$1.key] = .string($1.value) }
        return [
            "entries": places.isEmpty ? nil : .object(entries),
            "experimentDescriptions": experimentDescriptions.isEmpty ? nil : .array(experimentDescriptions),
            "rolloutMetadata": rolloutMetadata.isEmpty ? nil : .array(rolloutMetadata),
        ]
    }
}

extension CompiledTemplate {
    /// Values for instances with this outcome, which ``outcome(for:)`` of the same template gave: for each parameter
    /// the value of the first true condition that has one, else its default.
    package func values(for outcome: ConditionOutcome) -> ResolvedValues {
        var values = ResolvedValues(of: self)
        var participation = Participation()
        values.places.reserveCapacity(parameters.count)
        for (key, parameter) in parameters.enumerated() {
            let text = delivered(parameter, outcome) { participation.note($0, $1, parameter.key) }.text
            if let text { values.places.append(.init(key: key, text: text)) }
        }
        values.describe(participation)
        return values
    }
}

extension ResolvedValues {
    fileprivate mutating func describe(_ participation: Participation) {
        rolloutMetadata = participation.rollouts.sorted { $0.key < $1.key }.map { group, keys in
            [
                "rolloutId": .string(group.id), "variantId": .string(group.variant),
                "affectedParameterKeys": .array(keys.map(JSONValue.string)),
            ]
        }
        experimentDescriptions = participation.experiments.sorted { $0.key < $1.key }.map { group, keys in
            [
                "experimentId": .string(group.id), "variantId": .string(group.variant),
                "experimentStartTime": .string(group.startTime), "triggerEvent": "",
                "triggerTimeoutMillis": Self.halfYear, "timeToLiveMillis": Self.halfYear,
                "affectedParameterKeys": .array(keys.map(JSONValue.string)),
            ]
        }
    }

    /// 180 days in milliseconds, Firebase's longest.
    private static let halfYear: JSONValue = "15552000000"
}

/// Rollouts and experiments that apply to an instance, and their parameters.
private struct Participation {
    private(set) var rollouts: [Group: [String]] = [:]
    private(set) var experiments: [Group: [String]] = [:]

    struct Group: Hashable, Comparable {
        let id: String
        let variant: String
        var startTime = ""

        static func < (a: Self, b: Self) -> Bool { (a.id, a.variant) < (b.id, b.variant) }
    }

    mutating func note(_ value: ManagedValue, _ choice: ManagedValue.Choice, _ key: String) {
        switch value {
        case .rollout(let rollout):
            guard choice != 0 else { return }
            let group = Group(id: rollout.id, variant: ManagedValue.Rollout.variantID(choice))
            Self.add(key, to: &rollouts[group, default: []])
        case .experiment(let experiment):
            guard let variant = experiment.variant(choice) else { return }
            let id = experiment.id.hasPrefix("_exp_") ? experiment.id : "_exp_\(experiment.id)"
            let group = Group(id: id, variant: variant.id, startTime: experiment.startTime)
            Self.add(key, to: &experiments[group, default: []])
        }
    }

    /// Parameters come one after the other, each perhaps more than once.
    private static func add(_ key: String, to keys: inout [String]) { if keys.last != key { keys.append(key) } }
}
