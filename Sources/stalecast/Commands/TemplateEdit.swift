import StalecastTemplate
package import StalecastWire

/// A template's document while single values of it are changed; everything else stays as it is, to the letter.
package struct TemplateEdit {
    package private(set) var document: JSONObject

    /// - Parameter served: as Control serves it; `version` is left out.
    package init(_ served: JSONValue) {
        document = served.object ?? [:]
        document["etag"] = nil
        document["version"] = nil
    }

    package var names: [String] { holders.flatMap { $0["parameters"]?.object?.keys ?? [] } }

    /// The document and its groups.
    private var holders: [JSONValue] {
        [.object(document)] + (document["parameterGroups"]?.object?.members.map(\.value) ?? [])
    }

    package var conditions: [String] { (document["conditions"]?.array ?? []).compactMap { $0["name"]?.string } }

    /// A parameter as the document has it.
    /// - Throws: ``CommandFailure`` `notFound`, with the nearest name.
    package func parameter(_ name: String) throws(CommandFailure) -> JSONObject {
        if let found = holders.lazy.compactMap({ $0["parameters"]?[name]?.object }).first { return found }
        throw Self.unknown("parameter", name, names)
    }

    /// The value of a parameter; of a condition when one is named. Nil where apps use their own default.
    /// - Throws: ``CommandFailure`` `notFound` without such a parameter or value.
    package func value(_ name: String, if condition: String? = nil) throws(CommandFailure) -> JSONValue {
        let parameter = try parameter(name)
        guard let condition else { return parameter["defaultValue"] ?? .null }
        guard let value = parameter["conditionalValues"]?[condition] else {
            let known = parameter["conditionalValues"]?.object?.keys ?? []
            throw CommandFailure(
                .notFound, "\(name) has no value for the condition \(condition)",
                advice: known.isEmpty
                    ? "It has its default alone; `stalecast set \(name)=VALUE --condition NAME` gives it another."
                    : "It has some for: \(known.joined(separator: ", ")).")
        }
        return value
    }

    /// Sets a parameter's default, or its value for a condition.
    ///
    /// - Parameter type: of a parameter that is made by this; nil makes none.
    /// - Throws: ``CommandFailure`` `notFound` without such a parameter or condition.
    package mutating func set(
        _ name: String, to value: String, if condition: String?, making type: String? = nil
    ) throws(CommandFailure) {
        if condition == SchemaCondition.name, !conditions.contains(SchemaCondition.name) {
            document["conditions"] = .array((document["conditions"]?.array ?? []) + [SchemaCondition.json])
        } else if let condition, !conditions.contains(condition) {
            throw Self.unknown("condition", condition, conditions)
        }
        var parameter: JSONObject
        if let type, !names.contains(name) {
            parameter = ["valueType": .string(type)]
        } else {
            parameter = try self.parameter(name)
        }
        let value: JSONValue = ["value": .string(value)]
        if let condition {
            var values = parameter["conditionalValues"]?.object ?? [:]
            values[condition] = value
            parameter["conditionalValues"] = .object(values)
        } else {
            parameter["defaultValue"] = value
        }
        put(parameter, at: name)
    }

    /// Removes a parameter, or its value for a condition.
    /// - Throws: ``CommandFailure`` `notFound` when it is not there.
    package mutating func unset(_ name: String, if condition: String?) throws(CommandFailure) {
        var parameter = try parameter(name)
        guard let condition else { return put(nil, at: name) }
        _ = try value(name, if: condition)
        var values = parameter["conditionalValues"]?.object ?? [:]
        values[condition] = nil
        parameter["conditionalValues"] = values.isEmpty ? nil : .object(values)
        put(parameter, at: name)
    }

    private mutating func put(_ parameter: JSONObject?, at name: String) {
        func changed(_ holder: JSONObject) -> JSONObject {
            var (holder, parameters) = (holder, holder["parameters"]?.object ?? [:])
            parameters[name] = parameter.map(JSONValue.object)
            holder["parameters"] = .object(parameters)
            return holder
        }
        var groups = document["parameterGroups"]?.object ?? [:]
        let group = groups.members.first { $0.value["parameters"]?[name] != nil }
        guard let group, let holder = group.value.object else {
            document = changed(document)
            return
        }
        groups[group.key] = .object(changed(holder))
        document["parameterGroups"] = .object(groups)
    }

    private static func unknown(_ word: String, _ name: String, _ known: [String]) -> CommandFailure {
        let near = nearestName(to: name, of: known)
        return CommandFailure(
            .notFound, "there is no \(word) \(name)",
            advice: near.map { "Did you mean \($0)?" }
                ?? (known.isEmpty || known.count > 20 ? "" : "There is: \(known.sorted().joined(separator: ", ")). ")
                + (word == "condition"
                    ? "`stalecast edit` adds one to the template." : "`stalecast set --create TYPE` makes one."))
    }
}
