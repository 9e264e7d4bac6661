package import StalecastWire

/// A server template as Admin SDKs load it: conditions as trees they evaluate themselves.
package enum ServerTemplate {
    /// `{"parameters","conditions","version"}`. Parameters in groups stand among the others, since the SDKs know no
    /// groups; values only Firebase could choose (rollouts and the like) are left out. A condition that cannot be
    /// understood is false. JSON Schemas are left out: they are about publishing.
    ///
    /// - Parameter version: nil while there is none; then it is number 0.
    package static func json(_ template: Template, version: VersionMetadata?) -> JSONValue {
        let template = template.withoutSchemas
        return [
            "parameters": template.allParameters.sortedJSON { $0.serverJSON },
            "conditions": .array(template.conditions.map(\.serverJSON)),
            "version": version?.json ?? ["versionNumber": "0"],
        ]
    }
}

extension TemplateParameter {
    fileprivate var serverJSON: JSONValue {
        let values = conditionalValues.compactMapValues(\.serverJSON)
        return [
            "defaultValue": defaultValue?.serverJSON,
            "conditionalValues": values.isEmpty ? nil : values.sortedJSON { $0 },
            "valueType": valueType.map { .string($0.rawValue) },
        ]
    }
}

extension ParameterValue {
    fileprivate var serverJSON: JSONValue? {
        switch self {
        case .value, .inAppDefault: json
        case .personalization, .rollout, .experiment: nil
        }
    }
}

extension TemplateCondition {
    fileprivate var serverJSON: JSONValue { ["name": .string(name), "condition": tree] }

    /// OR of one AND, the shape Firebase sends.
    private var tree: JSONValue {
        var atoms: [JSONValue]
        do {
            atoms = try ConditionExpression(parsing: expression, kind: .server).tests.map(\.serverJSON)
        } catch {
            // Stored under older rules; no client may get its values by mistake.
            atoms = [["false": [:]]]
        }
        return ["orCondition": ["conditions": [["andCondition": ["conditions": .array(atoms)]]]]]
    }
}

extension ConditionExpression.Test {
    fileprivate var serverJSON: JSONValue {
        switch self {
        case .constant(let isTrue): isTrue ? ["true": [:]] : ["false": [:]]
        case .percent(let test): ["percent": test.serverJSON]
        case .value(.customSignal(let name), .number(let comparison, let literal)):
            Self.signal(name, "NUMERIC_\(comparison.serverName)", [literal.text])
        case .value(.customSignal(let name), .text(let textOperator, let values)):
            Self.signal(name, textOperator.serverName, values)
        case .value(.customSignal(let name), .version(let comparison, let literal)):
            Self.signal(name, "SEMANTIC_VERSION_\(comparison.serverName)", [literal.withoutEmptySegments])
        // Does not occur: the parser refuses these elements in a server template.
        case .text, .value, .set, .firstOpen, .dateTime: ["false": [:]]
        }
    }

    private static func signal(_ name: String, _ operatorName: String, _ targets: [String]) -> JSONValue {
        [
            "customSignal": [
                "customSignalOperator": .string(operatorName), "customSignalKey": .string(name),
                "targetCustomSignalValues": .array(targets.map(JSONValue.string)),
            ]
        ]
    }
}

extension ConditionExpression.PercentTest {
    fileprivate var serverJSON: JSONValue {
        switch range {
        case .atMost(let bound):
            ["percentOperator": "LESS_OR_EQUAL", "microPercent": .int(bound), "seed": .string(seed)]
        case .above(let bound):
            ["percentOperator": "GREATER_THAN", "microPercent": .int(bound), "seed": .string(seed)]
        case .between(let lower, let upper):
            [
                "percentOperator": "BETWEEN",
                "microPercentRange": [
                    "microPercentLowerBound": .int(lower), "microPercentUpperBound": .int(upper),
                ], "seed": .string(seed),
            ]
        }
    }
}

extension ConditionExpression.Comparison {
    fileprivate var serverName: String {
        switch self {
        case .less: "LESS_THAN"
        case .lessOrEqual: "LESS_EQUAL"
        case .equal: "EQUAL"
        case .notEqual: "NOT_EQUAL"
        case .greaterOrEqual: "GREATER_EQUAL"
        case .greater: "GREATER_THAN"
        }
    }
}

extension ConditionExpression.TextOperator {
    fileprivate var serverName: String {
        switch self {
        case .contains: "STRING_CONTAINS"
        case .notContains: "STRING_DOES_NOT_CONTAIN"
        case .exactlyMatches: "STRING_EXACTLY_MATCHES"
        case .matches: "STRING_CONTAINS_REGEX"
        }
    }
}

extension VersionLiteral {
    /// `1..2` as `1.0.2`: the SDKs refuse the first.
    fileprivate var withoutEmptySegments: String {
        segments.map { $0.isEmpty ? "0" : $0 }.joined(separator: ".")
    }
}
