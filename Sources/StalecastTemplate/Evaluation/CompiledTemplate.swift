/// A version of a template made ready to be evaluated, once, for any number of requests.
package struct CompiledTemplate: Sendable {
    /// Conditions in the template's order, which is their priority.
    let conditions: [Condition]
    /// Sorted by name, those in groups included.
    let parameters: [Parameter]
    let managedValues: [ManagedValue]
    /// The parameters' names, sorted.
    package let keys: [String]
    /// Every value that an instance may get; the values of one parameter stand together.
    package let texts: [String]
    /// The type of each text's parameter.
    package let textTypes: [ValueType]
    /// See ``inputs(of:_:hasManagedValues:)``.
    package let inputs: [ConditionInput]?
    let compiler: TestCompiler
    /// Places of the conditions some parameter uses.
    private let usedConditions: [Int]
    /// Places of the parameters that have managed values.
    private let managedParameters: [Int]
    /// Whether some parameter's value can depend on who the instance is.
    private let drawsLots: Bool

    /// Compiles a template; never fails: a condition that cannot be understood (of a version stored under older rules)
    /// is never true, and ``explain(_:)`` says why.
    package init(_ template: Template, kind: TemplateKind = .client) {
        let template = template.withoutSchemas
        var assembly = Assembly(kind: kind)
        conditions = template.conditions.map { assembly.condition($0) }
        parameters = assembly.parameters(template)
        compiler = assembly.compiler
        managedValues = assembly.managedValues
        keys = parameters.map(\.key)
        texts = assembly.texts
        textTypes = assembly.textTypes
        usedConditions = assembly.usedConditions.sorted()
        managedParameters = parameters.indices.filter { [parameters] in parameters[$0].isManaged }
        drawsLots =
            !managedParameters.isEmpty
            || usedConditions.contains { [conditions, compiler] in compiler.drawsLots(conditions[$0]) }
        inputs = Self.inputs(
            of: usedConditions.map { [conditions] in conditions[$0] }, compiler,
            hasManagedValues: !managedParameters.isEmpty)
    }

    /// Outcome of the conditions that decides the answer to `context`. Bounded by ``EvaluationBudget``, whatever
    /// template and context.
    package func outcome(for context: EvaluationContext) -> ConditionOutcome {
        var evaluation = Evaluation(compiler, context: context)
        return outcome(&evaluation)
    }

    /// Outcome in which no condition is true and no lot is drawn.
    package var outcomeOfNone: ConditionOutcome {
        ConditionOutcome(conditions: conditions.count, managedValues: managedValues.count)
    }

    func outcome(_ evaluation: inout Evaluation) -> ConditionOutcome {
        var outcome = ConditionOutcome(conditions: conditions.count, managedValues: managedValues.count)
        // A condition that no parameter uses cannot change the answer.
        for index in usedConditions where conditions[index].isTrue(in: &evaluation) { outcome.setTrue(index) }
        // Draws do not change which conditions are true.
        let decided = outcome
        for index in managedParameters { draw(parameters[index], decided, &evaluation, into: &outcome) }
        outcome.isAnonymous = drawsLots && evaluation.context.appInstanceID == nil
        return outcome
    }

    /// Draws for the managed values of a parameter, as far as they are reached.
    private func draw(
        _ parameter: Parameter, _ conditions: ConditionOutcome, _ evaluation: inout Evaluation,
        into outcome: inout ConditionOutcome
    ) {
        parameter.offer(conditions) { value, _ in
            // True ends the search at this value; a skipped value gives way to the next.
            guard case .managed(let place) = value else {
                if case .skipped = value { return false }
                return true
            }
            let choice = managedValues[place].choice(in: &evaluation)
            outcome.setChoice(place, choice)
            return managedValues[place].text(choice) != nil
        }
    }

    /// Value that instances with this outcome get of a parameter.
    ///
    /// - Parameter drawn: takes each rollout and experiment on the way, and what was drawn for it; first of all, since a
    ///   control group has no value, but clients report it.
    /// - Returns: the place of the text, nil leaves the value to the app; and that of the condition, nil where none
    ///   decided.
    func delivered(
        _ parameter: Parameter, _ outcome: ConditionOutcome,
        drawn: (ManagedValue, ManagedValue.Choice) -> Void = { _, _ in }
    ) -> (text: Int?, condition: Int?) {
        var delivered: (text: Int?, condition: Int?) = (nil, nil)
        parameter.offer(outcome) { value, condition in
            switch value {
            case .text(let text): delivered = (text, condition)
            case .nothing: delivered = (nil, condition)
            case .skipped: return false
            case .managed(let place):
                drawn(managedValues[place], outcome.choice(place))
                guard let text = managedValues[place].text(outcome.choice(place)) else { return false }
                delivered = (text, condition)
            }
            return true
        }
        return delivered
    }
}

extension CompiledTemplate {
    /// A condition as places of tests.
    struct Condition: Sendable {
        let name: String
        /// All of them must be true.
        let tests: [Int]
        /// Reason why the condition is never true; nil when it may be true.
        let problem: String?

        func isTrue(in evaluation: inout Evaluation) -> Bool {
            guard problem == nil else { return false }
            for test in tests where !evaluation.holds(test) { return false }
            return true
        }
    }

    /// A parameter's values in the order they are tried.
    struct Parameter: Sendable {
        let key: String
        /// Values by place of their condition, ascending.
        let conditionalValues: [(condition: Int, value: Value)]
        let defaultValue: Value?

        enum Value: Sendable {
            /// A place of ``CompiledTemplate/texts``.
            case text(Int)
            /// Clients get nothing, and nothing else is tried.
            case nothing
            /// No value to deliver (personalization needs Firebase's own models); the next one is tried.
            case skipped
            /// A rollout or experiment, by place.
            case managed(Int)
        }

        var isManaged: Bool {
            let values = conditionalValues.map(\.value) + (defaultValue.map { [$0] } ?? [])
            return values.contains { if case .managed = $0 { true } else { false } }
        }

        /// Offers the values whose condition is true, in order, the default last, until one is taken.
        ///
        /// - Parameter isTaken: takes also the place of the condition; nil: of the default.
        func offer(_ outcome: ConditionOutcome, isTaken: (Value, Int?) -> Bool) {
            for (condition, value) in conditionalValues where outcome.isTrue(condition) && isTaken(value, condition) {
                return
            }
            if let defaultValue { _ = isTaken(defaultValue, nil) }
        }
    }

    /// Collects what the parts of a template share while they are compiled.
    fileprivate struct Assembly {
        var compiler: TestCompiler
        private(set) var managedValues: [ManagedValue] = []
        private(set) var texts: [String] = []
        private(set) var textTypes: [ValueType] = []
        /// Type of the parameter that is being compiled.
        private var type = ValueType.string
        private(set) var usedConditions: Set<Int> = []
        /// Places of the first condition with that name.
        private var places: [String: Int] = [:]
        private var count = 0

        init(kind: TemplateKind) { compiler = TestCompiler(kind: kind) }

        mutating func condition(_ condition: TemplateCondition) -> Condition {
            if places[condition.name] == nil { places[condition.name] = count }
            count += 1
            do {
                let expression = try ConditionExpression(parsing: condition.expression, kind: compiler.kind)
                let tests = expression.tests.map { compiler.place(of: $0) }
                return Condition(name: condition.name, tests: tests, problem: nil)
            } catch {
                return Condition(name: condition.name, tests: [], problem: "cannot be understood: \(error)")
            }
        }

        mutating func parameters(_ template: Template) -> [Parameter] {
            template.allParameters.sorted { $0.key < $1.key }.map { key, parameter in
                type = parameter.effectiveType
                var values: [(condition: Int, value: Parameter.Value)] = []
                for (name, value) in parameter.conditionalValues {
                    // The value of a condition that does not exist is never delivered.
                    guard let place = places[name] else { continue }
                    usedConditions.insert(place)
                    values.append((place, compiled(value)))
                }
                // The order of conditions is their priority; values are stored in any order.
                values.sort { $0.condition < $1.condition }
                return Parameter(
                    key: key, conditionalValues: values, defaultValue: parameter.defaultValue.map { compiled($0) })
            }
        }

        private mutating func compiled(_ value: ParameterValue) -> Parameter.Value {
            switch value {
            case .value(let value): return .text(text(value))
            case .inAppDefault: return .nothing
            case .personalization: return .skipped
            case .rollout(let content):
                let rollout = ManagedValue.Rollout(content, seed: { compiler.place(ofSeed: $0) }, text: { text($0) })
                managedValues.append(.rollout(rollout))
            case .experiment(let content):
                let experiment = ManagedValue.Experiment(
                    content, seed: { compiler.place(ofSeed: $0) }, text: { text($0) })
                managedValues.append(.experiment(experiment))
            }
            return .managed(managedValues.count - 1)
        }

        private mutating func text(_ text: String) -> Int {
            texts.append(text)
            textTypes.append(type)
            return texts.count - 1
        }
    }
}
