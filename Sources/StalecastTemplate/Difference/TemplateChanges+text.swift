import StalecastWire

extension TemplateChanges {
    /// Text for people: a line `+ parameter a` (added), `- …` (removed) or `~ …` (changed) per difference, its details
    /// indented below it, long texts clipped; ends with a line end unless empty. Safe for terminals.
    package var text: String {
        var lines: [String] = []
        for change in conditions {
            let priority = change.new?.priority ?? change.old?.priority ?? 0
            lines += Self.lines("condition", change, Self.details, remark: " (priority \(priority))")
        }
        for change in groups { lines += Self.lines("group", change, Self.details) }
        for change in parameters { lines += Self.lines("parameter", change, Self.details) }
        return lines.map { $0 + "\n" }.joined()
    }

    /// A named property with its whole value, and how much of it to show.
    private struct Detail {
        let name: String
        let value: String
        var isQuoted = true

        var shown: String { isQuoted ? "\"\(value.shown)\"" : value.shown }
        /// Value that stands alone: JSON has quotes of its own.
        var listed: String { json == nil ? shown : value.shown }

        /// A value that is an object or a list.
        var json: JSONValue? {
            // Any other text is no JSON, and compared whole.
            guard isQuoted, value.utf8.first == UInt8(ascii: "{") || value.utf8.first == UInt8(ascii: "[") else {
                return nil
            }
            return JSONValue.ifValid(value.utf8)
        }
    }

    private static func lines<Thing>(
        _ word: String, _ change: Change<Thing>, _ details: (Thing) -> [Detail], remark: String = ""
    ) -> [String] {
        let title = "\(word) \(change.name.shown)\(remark)"
        guard let old = change.old.map(details) else {
            return ["+ \(title)"] + (change.new.map(details) ?? []).map { "    \($0.name): \($0.listed)" }
        }
        guard let new = change.new.map(details) else {
            return ["- \(title)"] + old.map { "    \($0.name): \($0.listed)" }
        }
        return ["~ \(title)"] + differences(old, new)
    }

    private static func differences(_ old: [Detail], _ new: [Detail]) -> [String] {
        let oldDetails = Dictionary(old.map { ($0.name, $0) }) { first, _ in first }
        let newDetails = Dictionary(new.map { ($0.name, $0) }) { first, _ in first }
        let names = old.map(\.name) + new.map(\.name).filter { oldDetails[$0] == nil }
        return names.flatMap { difference($0, oldDetails[$0], newDetails[$0]) }
    }

    private static func difference(_ name: String, _ old: Detail?, _ new: Detail?) -> [String] {
        guard old?.value != new?.value || old?.isQuoted != new?.isQuoted else { return [] }
        if let old = old?.json, let new = new?.json {
            let inside = ValueDifference.list(from: old, to: new)
            if !inside.isEmpty { return inside.map { "    \(name), at \($0)" } }
        }
        let (oldText, newText) = (old?.shown ?? "(none)", new?.shown ?? "(none)")
        return ["    \(name): \(oldText) -> \(newText)\(ValueDifference.remark(oldText, newText))"]
    }

    private static func details(_ placed: PlacedParameter) -> [Detail] {
        let parameter = placed.parameter
        var details = parameter.defaultValue.map { [detail("default", $0)] } ?? []
        for name in parameter.conditionalValues.keys.sorted() {
            guard let value = parameter.conditionalValues[name] else { continue }
            details.append(detail("if \(name.shown)", value))
        }
        details.append(Detail(name: "type", value: parameter.effectiveType.rawValue, isQuoted: false))
        if !parameter.description.isEmpty {
            details.append(Detail(name: "description", value: parameter.description))
        }
        if let group = placed.group { details.append(Detail(name: "group", value: group)) }
        return details
    }

    private static func detail(_ name: String, _ value: ParameterValue) -> Detail {
        switch value {
        case .value(let text): Detail(name: name, value: text)
        case .inAppDefault: Detail(name: name, value: "(in-app default)", isQuoted: false)
        case .personalization(let content), .rollout(let content), .experiment(let content):
            Detail(name: name, value: "\(value.json.object?.keys.first ?? "") \(content.text())", isQuoted: false)
        }
    }

    /// The priority is a detail only of one that moved, or every condition below an inserted one would be listed.
    private static func details(_ ranked: RankedCondition) -> [Detail] {
        var details = [Detail(name: "expression", value: ranked.condition.expression, isQuoted: false)]
        if ranked.isMoved { details.append(Detail(name: "priority", value: String(ranked.priority), isQuoted: false)) }
        if let color = ranked.condition.tagColor {
            details.append(Detail(name: "color", value: color.rawValue, isQuoted: false))
        }
        return details
    }

    private static func details(_ group: ParameterGroup) -> [Detail] {
        group.description.isEmpty ? [] : [Detail(name: "description", value: group.description)]
    }
}
