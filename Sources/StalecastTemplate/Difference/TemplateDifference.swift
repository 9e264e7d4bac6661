/// Finds the differences between two templates.
package enum TemplateDifference {
    /// Names, sorted, of the parameters whose outcome may differ for some instance: added or removed ones, those with
    /// another default value, conditional value or value type, and those that use a condition whose expression, or
    /// whose priority among the conditions they use, is another. Moving a parameter between groups, descriptions, colours
    /// and JSON Schemas change no outcome.
    package static func changedKeys(from old: Template, to new: Template) -> [String] {
        let (old, new) = (old.withoutSchemas, new.withoutSchemas)
        let conditions = ConditionComparison(from: old.conditions, to: new.conditions)
        let oldParameters = old.allParameters
        let newParameters = new.allParameters
        var changed = oldParameters.keys.filter { newParameters[$0] == nil }
        for (key, parameter) in newParameters {
            let isSame = oldParameters[key].map { $0.hasSameValues(as: parameter) } ?? false
            if !isSame || conditions.affect(parameter) { changed.append(key) }
        }
        return changed.sorted()
    }
}

extension TemplateParameter {
    /// True when nothing but the description, or an explicit `STRING`, differs.
    func hasSameValues(as other: TemplateParameter) -> Bool {
        defaultValue == other.defaultValue && effectiveType == other.effectiveType
            && conditionalValues == other.conditionalValues
    }
}

/// Two lists of conditions side by side.
struct ConditionComparison {
    private let isSame: Bool
    private let old: [String: (rank: Int, expression: String)]
    private let new: [String: (rank: Int, expression: String)]

    init(from old: [TemplateCondition], to new: [TemplateCondition]) {
        isSame = old.elementsEqual(new) { $0.name == $1.name && $0.expression.utf8.elementsEqual($1.expression.utf8) }
        self.old = Self.ranked(old)
        self.new = Self.ranked(new)
    }

    private static func ranked(_ conditions: [TemplateCondition]) -> [String: (rank: Int, expression: String)] {
        let ranked = conditions.enumerated().map { ($1.name, (rank: $0, expression: $1.expression)) }
        return Dictionary(ranked) { first, _ in first }
    }

    /// Whether the conditions `parameter` has values for differ, or stand in another order among each other.
    func affect(_ parameter: TemplateParameter) -> Bool {
        guard !isSame else { return false }
        let used = parameter.conditionalValues.keys
        if used.contains(where: { !hasSameExpression($0) }) { return true }
        let ranks = used.compactMap { name in old[name].flatMap { old in new[name].map { (old.rank, $0.rank) } } }
        let newRanks = ranks.sorted { $0.0 < $1.0 }.map(\.1)
        return zip(newRanks, newRanks.dropFirst()).contains { $0 > $1 }
    }

    /// Byte by byte; also true when neither side has the condition.
    private func hasSameExpression(_ name: String) -> Bool {
        guard let old = old[name], let new = new[name] else { return old[name] == nil && new[name] == nil }
        return old.expression.utf8.elementsEqual(new.expression.utf8)
    }
}
