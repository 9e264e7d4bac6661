/// All differences between two templates, as `stalecast diff` shows them: parameters and groups sorted by name,
/// conditions by their new priority.
package struct TemplateChanges: Sendable, Hashable {
    package let parameters: [Change<PlacedParameter>]
    package let conditions: [Change<RankedCondition>]
    /// Groups, their parameters left aside (those are in ``parameters``).
    package let groups: [Change<ParameterGroup>]

    /// A thing of one name in two templates; at least one side is there, and the sides differ.
    package struct Change<Thing: Sendable & Hashable>: Sendable, Hashable {
        package let name: String
        /// nil when added.
        package let old: Thing?
        /// nil when removed.
        package let new: Thing?

        /// `added`, `removed` or `changed`.
        package var kind: String { old == nil ? "added" : new == nil ? "removed" : "changed" }
    }

    package struct PlacedParameter: Sendable, Hashable {
        package let parameter: TemplateParameter
        /// nil outside groups.
        package let group: String?
    }

    package struct RankedCondition: Sendable, Hashable {
        package let condition: TemplateCondition
        /// Priority from 1, the highest.
        package let priority: Int
        /// True when it stands elsewhere among the conditions that are in both templates. Of the ways to tell who
        /// moved, the one with the fewest movers is taken.
        package let isMoved: Bool
    }

    package init(from old: Template, to new: Template) {
        parameters = Self.changes(old.placedParameters, new.placedParameters)
        conditions = Self.conditionChanges(old.conditions, new.conditions)
        groups = Self.changes(old.groups.withoutParameters, new.groups.withoutParameters)
    }

    /// True when the templates are equal, descriptions included.
    package var isEmpty: Bool { parameters.isEmpty && conditions.isEmpty && groups.isEmpty }

    private static func changes<Thing>(_ old: [String: Thing], _ new: [String: Thing]) -> [Change<Thing>] {
        Set(old.keys).union(new.keys).sorted().compactMap { name in
            old[name] == new[name] ? nil : Change(name: name, old: old[name], new: new[name])
        }
    }

    private static func conditionChanges(
        _ old: [TemplateCondition], _ new: [TemplateCondition]
    ) -> [Change<RankedCondition>] {
        let moved = movedNames(old.map(\.name), new.map(\.name))
        let changes = changes(ranked(old, moved), ranked(new, moved)).filter { change in
            change.old?.condition != change.new?.condition || moved.contains(change.name)
        }
        return changes.sorted { ($0.new?.priority ?? .max, $0.name) < ($1.new?.priority ?? .max, $1.name) }
    }

    private static func ranked(_ conditions: [TemplateCondition], _ moved: Set<String>) -> [String: RankedCondition] {
        let ranked = conditions.enumerated().map { index, condition in
            let isMoved = moved.contains(condition.name)
            return (condition.name, RankedCondition(condition: condition, priority: index + 1, isMoved: isMoved))
        }
        return Dictionary(ranked) { first, _ in first }
    }

    /// Names that are in both lists, but not in the longest sequence that keeps its order.
    private static func movedNames(_ old: [String], _ new: [String]) -> Set<String> {
        let oldRanks = Dictionary(old.enumerated().map { ($1, $0) }) { first, _ in first }
        let common = new.filter { oldRanks[$0] != nil }
        let kept = longestIncreasingRun(common.map { oldRanks[$0, default: 0] })
        return Set(common).subtracting(kept.map { common[$0] })
    }

    /// Indices of a longest strictly increasing subsequence, by patience sorting: O(n log n).
    private static func longestIncreasingRun(_ numbers: [Int]) -> [Int] {
        var tops: [Int] = []
        var before = [Int?](repeating: nil, count: numbers.count)
        for (index, number) in numbers.enumerated() {
            var (low, high) = (0, tops.count)
            while low < high {
                let middle = (low + high) / 2
                if numbers[tops[middle]] < number { low = middle + 1 } else { high = middle }
            }
            before[index] = low > 0 ? tops[low - 1] : nil
            if low == tops.count { tops.append(index) } else { tops[low] = index }
        }
        return Array(
            sequence(state: tops.last) { next in
                defer { next = next.flatMap { before[$0] } }
                return next
            })
    }
}

extension Template {
    fileprivate var placedParameters: [String: TemplateChanges.PlacedParameter] {
        var placed: [String: TemplateChanges.PlacedParameter] = [:]
        for (name, group) in groups {
            for (key, parameter) in group.parameters { placed[key] = .init(parameter: parameter, group: name) }
        }
        for (key, parameter) in parameters { placed[key] = .init(parameter: parameter, group: nil) }
        return placed
    }
}

extension [String: ParameterGroup] {
    fileprivate var withoutParameters: Self { mapValues { ParameterGroup(description: $0.description) } }
}
