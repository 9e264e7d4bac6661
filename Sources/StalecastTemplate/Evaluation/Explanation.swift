package import StalecastWire

/// What became of each condition for one context, and why; for people, and never on a fetch's path.
package struct Explanation: Sendable, Hashable {
    /// In the template's order.
    package let conditions: [ConditionExplanation]
    /// What the context gets.
    package let values: ResolvedValues

    /// `{"conditions":[{"name","matched","reason","tests":[{"element","holds","reason"}]}],"entries":{…}}` and the
    /// other members of a fetch answer.
    package var json: JSONValue {
        var object: JSONObject = ["conditions": .array(conditions.map(\.json))]
        for (name, value) in values.members.members { object[name] = value }
        if object["entries"] == nil { object["entries"] = [:] }
        return .object(object)
    }
}

/// What became of one condition.
package struct ConditionExplanation: Sendable, Hashable {
    package let name: String
    package let isMatched: Bool
    /// Why it cannot be true for anybody; nil for a condition that can be understood.
    package let problem: String?
    /// All its tests, also those after the first false one.
    package let tests: [TestExplanation]

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

/// What became of one element of a condition.
package struct TestExplanation: Sendable, Hashable {
    /// For example `app.userProperty['plan']`.
    package let element: String
    package let holds: Bool
    /// For example `device.country is 'DE', not in ['FR', 'US']`.
    package let reason: String

    fileprivate var json: JSONValue {
        ["element": .string(element), "holds": .bool(holds), "reason": .string(reason)]
    }
}

extension CompiledTemplate {
    /// Evaluates every condition, also those no parameter uses, and says why. The verdicts are those of
    /// ``outcome(for:)`` unless the budget ran out.
    package func explain(_ context: EvaluationContext) -> Explanation {
        var evaluation = Evaluation(compiler, context: context)
        let outcome = outcome(&evaluation)
        let conditions = conditions.map { condition in
            let isMatched = condition.isTrue(in: &evaluation)
            let tests = condition.tests.map { evaluation.explain($0) }
            return ConditionExplanation(
                name: condition.name, isMatched: isMatched, problem: condition.problem, tests: tests)
        }
        return Explanation(conditions: conditions, values: values(for: outcome))
    }
}
