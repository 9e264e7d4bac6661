package import StalecastTemplate

/// A part of a template that Firebase evaluates and this server does not, or evaluates otherwise.
package struct ImportFinding: Sendable, Hashable {
    package enum Kind: String, Sendable, CaseIterable {
        case audience, importedSegment, browser, personalization, experiment, rollout, percent
    }

    package let kind: Kind
    /// `condition NAME` or `parameter NAME`.
    package let place: String

    package var sentence: String {
        switch kind {
        case .audience: "tests app.audiences, which no SDK sends: it is false for every client"
        case .importedSegment: "tests app.importedSegments, which no SDK sends: it is false for every client"
        case .browser:
            "tests the operating system's or the browser's version, which no SDK sends: it is false for every client"
        case .personalization:
            "has a personalized value, which only Google's models choose: the next value that applies is served"
        case .experiment:
            "has an experiment: it is served here, with other groups than Google's, and Google counts no results"
        case .rollout: "has a rollout: it is served here, with other groups than Google's, and Google counts no results"
        case .percent: "tests percent: the share is the same here, the instances in it are others than Google's"
        }
    }

    /// Conditions in their order, then parameters by name.
    package static func all(in template: Template) -> [ImportFinding] {
        let conditions = template.conditions.flatMap { condition in
            kinds(of: condition).map { ImportFinding(kind: $0, place: "condition \(condition.name)") }
        }
        let parameters = template.allParameters.sorted { $0.key < $1.key }.flatMap { name, parameter in
            kinds(of: parameter).map { ImportFinding(kind: $0, place: "parameter \(name)") }
        }
        return conditions + parameters
    }

    private static func kinds(of condition: TemplateCondition) -> [Kind] {
        // A template that is valid has expressions that are.
        let tests = (try? ConditionExpression(parsing: condition.expression, kind: .client))?.tests ?? []
        let found = Set(tests.compactMap(kind(of:)))
        return Kind.allCases.filter(found.contains)
    }

    private static func kind(of test: ConditionExpression.Test) -> Kind? {
        switch test {
        case .set(.audiences, _, _): .audience
        case .set(.importedSegments, _, _): .importedSegment
        case .text(.operatingSystemAndVersion, _, _), .text(.browserAndVersion, _, _): .browser
        case .percent: .percent
        default: nil
        }
    }

    private static func kinds(of parameter: TemplateParameter) -> [Kind] {
        let values = [parameter.defaultValue].compactMap(\.self) + parameter.conditionalValues.values
        let found = Set(values.compactMap(kind(of:)))
        return Kind.allCases.filter(found.contains)
    }

    private static func kind(of value: ParameterValue) -> Kind? {
        switch value {
        case .value, .inAppDefault: nil
        case .personalization: .personalization
        case .rollout: .rollout
        case .experiment: .experiment
        }
    }
}
