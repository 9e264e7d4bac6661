package import StalecastWire

extension Release {
    /// Document of the API. Stages that were skipped or are still to come have no `reachedAt`.
    package var json: JSONObject {
        var object: JSONObject = [
            "versionNumber": .string(String(version)), "baseVersionNumber": .string(String(base)),
            "state": .string(state.rawValue), "percent": Percentage.json(covered),
            "stages": .array(policy.stages.map(stage)),
        ]
        object["nextStepAt"] = nextStepAt.map { .string($0.description) }
        object["successorVersionNumber"] = successor.map { .string(String($0)) }
        object["policy"] = policy.json
        object["events"] = .array(events.map(\.json))
        return object
    }

    private func stage(_ points: Int) -> JSONValue {
        var object: JSONObject = ["percent": Percentage.json(points)]
        if let reached = reached.first(where: { $0.stage == points }) {
            object["reachedAt"] = .string(reached.at.description)
            object["sequence"] = .string(String(reached.sequence))
        }
        return .object(object)
    }

    /// Document of the database and of the shared log: ``json``, and what only programs need.
    package var record: JSONValue {
        var object: JSONObject = [
            "project": .string(scope.project.description), "namespace": .string(scope.namespace.description),
        ]
        for (name, value) in json.members { object[name] = value }
        object["since"] = since.map { .string($0.description) }
        return .object(object)
    }

    /// Reads what ``record`` wrote, and passes over what a newer program added; nil for anything else. A state that this
    /// program does not know is paused: clients keep what they have until an operator decides.
    package init?(record: JSONValue) {
        // Parts that cannot be read make the record none.
        guard let project = record["project"]?.string, let namespace = record["namespace"]?.string,
            let project = try? ProjectID(project), let namespace = try? Namespace(namespace),
            let version = record["versionNumber"]?.versionNumber,
            let base = record["baseVersionNumber"]?.versionNumber, base < version,
            let policy = record["policy"].flatMap({ try? ReleasePolicy(stored: $0) }),  // unreadable: no release
            let state = record["state"]?.string
        else { return nil }
        self.init(
            scope: Scope(project: project, namespace: namespace), version: version, base: base, policy: policy)
        self.state = State(rawValue: state) ?? .paused
        reached = (record["stages"]?.array ?? []).compactMap(Reached.init)
        events = (record["events"]?.array ?? []).suffix(Self.maxEvents).compactMap(Event.init)
        since = record["since"]?.string.flatMap(Timestamp.init)
        successor = record["successorVersionNumber"]?.versionNumber
        guard isConsistent else { return nil }
    }

    private var isConsistent: Bool {
        let isAscending = zip(reached, reached.dropFirst()).allSatisfy {
            $0.stage < $1.stage && $0.sequence < $1.sequence
        }
        guard isAscending, reached.allSatisfy({ policy.stages.contains($0.stage) }), (since == nil) == reached.isEmpty
        else { return false }
        return switch state {
        case .pending: reached.isEmpty
        case .ramping: told > 0 && told < Percentage.whole
        case .baking, .released: told == Percentage.whole
        case .paused: true
        case .rolledBack, .superseded: successor.map { $0 > version } ?? false
        }
    }
}

extension Release.Reached {
    fileprivate init?(_ json: JSONValue) {
        guard let stage = json["percent"].flatMap(Percentage.basisPoints),
            let sequence = json["sequence"]?.int64.flatMap({ CommitSequence(exactly: $0) }),
            let at = json["reachedAt"]?.string.flatMap(Timestamp.init)
        else { return nil }
        self.init(stage: stage, sequence: sequence, at: at)
    }
}

extension Release.Event {
    fileprivate var json: JSONValue {
        var object: JSONObject = [
            "at": .string(at.description), "by": .string(by), "kind": .string(kind.rawValue),
            "percent": Percentage.json(stage),
        ]
        object["reason"] = reason.map(JSONValue.string)
        object["figures"] = figures
        return .object(object)
    }

    /// nil for a kind that only a newer program knows.
    fileprivate init?(_ json: JSONValue) {
        guard let at = json["at"]?.string.flatMap(Timestamp.init),
            let kind = json["kind"]?.string.flatMap(Kind.init)
        else { return nil }
        self.init(
            at: at, by: json["by"]?.string ?? "", kind: kind,
            stage: json["percent"].flatMap(Percentage.basisPoints) ?? 0,
            reason: json["reason"]?.string, figures: json["figures"])
    }
}
