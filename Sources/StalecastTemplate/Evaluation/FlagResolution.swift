/// A value that some instance may get for a parameter, and why it would: a flag's resolution in OpenFeature's words.
package struct FlagResolution: Sendable, Hashable {
    /// A place of ``CompiledTemplate/texts``.
    package let text: Int
    package let reason: Reason
    /// The condition whose value it is, what a rollout or experiment calls the group, or ``defaultVariant``.
    package let variant: String

    package static let defaultVariant = "default"

    /// Raw values are on the wire.
    package enum Reason: String, Sendable {
        /// The default of a parameter that has no other value.
        case fixed = "STATIC"
        /// The value of a condition.
        case matched = "TARGETING_MATCH"
        /// The value of a lot that was drawn among instances.
        case drawn = "SPLIT"
        /// The default of a parameter whose other values did not apply, or the app's own. OFREP's schema lacks the word;
        /// OpenFeature's specification has it, and other servers say it.
        case fallback = "DEFAULT"
    }
}

extension CompiledTemplate {
    /// The place of a parameter; nil when there is none of that name.
    package func place(of key: String) -> Int? {
        // Beyond ASCII names are dear to compare, and no parameter has one.
        guard key.utf8.allSatisfy({ $0 < 0x80 }) else { return nil }
        var (low, high) = (0, keys.count)
        while low < high {
            let middle = (low + high) / 2
            if keys[middle] < key { low = middle + 1 } else { high = middle }
        }
        return low < keys.count && keys[low] == key ? low : nil
    }

    /// Text of the parameter at `key` for instances with this outcome, which ``outcome(for:)`` of the same template
    /// gave: a place of ``texts``; nil leaves the value to the app.
    package func text(of key: Int, for outcome: ConditionOutcome) -> Int? {
        delivered(parameters[key], outcome).text
    }

    /// Whether the parameter's value can depend on a draw, for which the client must say who it is.
    package func isDrawn(key: Int) -> Bool {
        parameters[key].isManaged
            || parameters[key].conditionalValues.contains { compiler.drawsLots(conditions[$0.condition]) }
    }

    /// All resolutions that ``text(of:for:)`` may give for a parameter.
    package func resolutions(of key: Int) -> [FlagResolution] {
        let parameter = parameters[key]
        var resolutions: [FlagResolution] = []
        for (place, value) in parameter.conditionalValues {
            let isDrawn = compiler.drawsLots(conditions[place])
            // A condition with `percent` draws instances, which OpenFeature calls a split.
            append(value, isDrawn ? .drawn : .matched, conditions[place].name, to: &resolutions)
        }
        if let value = parameter.defaultValue {
            let isFixed = parameter.conditionalValues.isEmpty && !parameter.isManaged
            append(value, isFixed ? .fixed : .fallback, FlagResolution.defaultVariant, to: &resolutions)
        }
        return resolutions
    }

    private func append(
        _ value: Parameter.Value, _ reason: FlagResolution.Reason, _ variant: String,
        to resolutions: inout [FlagResolution]
    ) {
        switch value {
        case .text(let text): resolutions.append(FlagResolution(text: text, reason: reason, variant: variant))
        case .nothing, .skipped: break
        case .managed(let place):
            for (text, group) in managedValues[place].groups {
                resolutions.append(FlagResolution(text: text, reason: .drawn, variant: group))
            }
        }
    }
}

extension ManagedValue {
    /// The groups that get a value of their own: its place among the texts, and what the group is called.
    fileprivate var groups: [(text: Int, variant: String)] {
        switch self {
        case .rollout(let rollout): [(rollout.value, Rollout.variantID(Rollout.enabled))]
        case .experiment(let experiment):
            experiment.variants.compactMap { variant in variant.value.map { ($0, variant.id) } }
        }
    }
}

extension CompiledTemplate.TestCompiler {
    /// Whether a condition takes in a percentage of instances.
    func drawsLots(_ condition: CompiledTemplate.Condition) -> Bool {
        condition.tests.contains { if case .percent = tests[$0] { true } else { false } }
    }
}
