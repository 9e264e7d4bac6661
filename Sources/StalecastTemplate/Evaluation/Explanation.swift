package import StalecastWire

/// Explanation of each condition's result for one context; for people, and never on a fetch's path.
package struct Explanation: Sendable, Hashable {
    /// Conditions in the template's order.
    package let conditions: [Condition]
    /// Every parameter, also those the context gets no value of; sorted by name.
    package let parameters: [Parameter]
    /// Values that the context gets.
    package let values: ResolvedValues
    /// Work of the evaluation, in steps of ``EvaluationBudget``.
    package let steps: Int

    /// `{"conditions":[{"name","matched","reason","tests":[{"element","holds","reason"}]}],
    /// "parameters":[{"name","value","condition"}],"entries":{…}}` and the other members of a fetch answer. A parameter
    /// has no `value` when the app's own default counts, and no `condition` when its default decided.
    package var json: JSONValue {
        var object: JSONObject = [
            "conditions": .array(conditions.map(\.json)), "parameters": .array(parameters.map(\.json)),
        ]
        for (name, value) in values.members.members { object[name] = value }
        if object["entries"] == nil { object["entries"] = [:] }
        return .object(object)
    }
}

extension Explanation {
    package struct Condition: Sendable, Hashable {
        package let name: String
        package let isMatched: Bool
        /// Reason why the condition cannot be true for any client; nil for a valid condition.
        package let problem: String?
        /// All its tests, also those after the first false one.
        package let tests: [Test]

        /// The first test that failed, or all that hold, in one line.
        package var reason: String {
            if let problem { return problem }
            if let failed = tests.first(where: { !$0.holds }) { return failed.reason }
            return tests.map(\.reason).joined(separator: "; ")
        }

        fileprivate var json: JSONValue {
            [
                "name": .string(name), "matched": .bool(isMatched), "reason": .string(reason),
                "tests": .array(tests.map(\.json)),
            ]
        }
    }

    package struct Test: Sendable, Hashable {
        /// Element, for example `app.userProperty['plan']`.
        package let element: String
        package let holds: Bool
        /// Reason, for example `device.country is 'DE', not in ['FR', 'US']`.
        package let reason: String

        fileprivate var json: JSONValue {
            ["element": .string(element), "holds": .bool(holds), "reason": .string(reason)]
        }
    }

    package struct Parameter: Sendable, Hashable {
        package let name: String
        /// nil when clients get none and use the default in the app.
        package let value: String?
        /// The condition that decided; nil when none did.
        package let condition: String?

        fileprivate var json: JSONValue {
            [
                "name": .string(name), "value": value.map(JSONValue.string),
                "condition": condition.map(JSONValue.string),
            ]
        }
    }
}

extension CompiledTemplate {
    /// Evaluates every condition, also those no parameter uses, and says why. The verdicts are those of
    /// ``outcome(for:)`` unless the budget ran out.
    package func explain(_ context: EvaluationContext) -> Explanation {
        var evaluation = Evaluation(compiler, context: context)
        let outcome = outcome(&evaluation)
        let conditions = conditions.map { condition in
            // `outcome` has left out the conditions that no parameter uses.
            let isMatched = condition.isTrue(in: &evaluation)
            let tests = condition.tests.map { evaluation.explain($0) }
            return Explanation.Condition(
                name: condition.name, isMatched: isMatched, problem: condition.problem, tests: tests)
        }
        let parameters = parameters.map { parameter in
            let (text, condition) = delivered(parameter, outcome)
            return Explanation.Parameter(
                name: parameter.key, value: text.map { texts[$0] },
                condition: condition.map { self.conditions[$0].name })
        }
        return Explanation(
            conditions: conditions, parameters: parameters, values: values(for: outcome),
            steps: EvaluationBudget.defaultSteps - evaluation.budget.stepsLeft)
    }
}
