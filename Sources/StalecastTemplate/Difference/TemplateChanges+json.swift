package import StalecastWire

extension TemplateChanges {
    /// `{"parameters","conditions","groups"}`, each a list of `{"name","change","old","new"}`: `change` is `added`,
    /// `removed` or `changed`, the sides are as Firebase writes them, a parameter's with `group`, a condition's with
    /// `priority` and, when it moved, `"moved":true`.
    package var json: JSONValue {
        [
            "parameters": Self.list(parameters) { placed in
                var object = placed.parameter.json.object ?? JSONObject()
                object["group"] = placed.group.map(JSONValue.string)
                return .object(object)
            },
            "conditions": Self.list(conditions) { ranked in
                var object = ranked.condition.json.object ?? JSONObject()
                object["priority"] = .int(ranked.priority)
                if ranked.isMoved { object["moved"] = true }
                return .object(object)
            },
            "groups": Self.list(groups) { ["description": .string($0.description)] },
        ]
    }

    private static func list<Thing>(_ changes: [Change<Thing>], _ convert: (Thing) -> JSONValue) -> JSONValue {
        .array(
            changes.map { change in
                [
                    "name": .string(change.name), "change": .string(change.kind), "old": change.old.map(convert),
                    "new": change.new.map(convert),
                ]
            })
    }
}
