package import StalecastWire

/// A parameter: what clients get for its name.
package struct TemplateParameter: Sendable, Hashable {
    /// Value for instances for which no condition of ``conditionalValues`` is true; nil gives them nothing.
    package var defaultValue: ParameterValue?
    /// Values by condition name; the template's order of conditions decides which of several true ones wins.
    package var conditionalValues: [String: ParameterValue]
    /// Description for people, at most 256 characters; empty when none.
    package var description: String
    /// nil when not given, which means ``ValueType/string``.
    package var valueType: ValueType?

    package init(
        defaultValue: ParameterValue? = nil, conditionalValues: [String: ParameterValue] = [:],
        description: String = "", valueType: ValueType? = nil
    ) {
        (self.defaultValue, self.conditionalValues) = (defaultValue, conditionalValues)
        (self.description, self.valueType) = (description, valueType)
    }

    /// The type in force.
    package var effectiveType: ValueType { valueType ?? .string }

    /// Firebase's `RemoteConfigParameter` without its empty members.
    package var json: JSONValue {
        [
            "defaultValue": defaultValue?.json,
            "conditionalValues": conditionalValues.isEmpty ? nil : conditionalValues.sortedJSON { $0.json },
            "description": description.isEmpty ? nil : .string(description),
            "valueType": valueType.map { .string($0.rawValue) },
        ]
    }
}

/// Type that a parameter's values must have; raw values are Firebase's.
package enum ValueType: String, Sendable, Hashable, CaseIterable {
    case string = "STRING"
    case boolean = "BOOLEAN"
    case number = "NUMBER"
    case json = "JSON"
}

package enum ParameterValue: Sendable, Hashable {
    /// Text as clients get it, whatever the type; may be empty.
    case value(String)
    /// Clients get nothing and use the default in the app.
    case inAppDefault
    /// `{"personalizationId":…}`, kept as it came.
    case personalization(JSONValue)
    /// `{"rolloutId":…,"value":…,"percent":…}`, kept as it came.
    case rollout(JSONValue)
    /// `{"experimentId":…,"variantValue":[…],"exposurePercent":…}`, kept as it came.
    case experiment(JSONValue)

    /// Texts are compared byte by byte: clients tell a composed from a decomposed letter, Swift's strings do not.
    package static func == (a: Self, b: Self) -> Bool {
        switch (a, b) {
        case (.value(let a), .value(let b)): a.utf8.elementsEqual(b.utf8)
        case (.inAppDefault, .inAppDefault): true
        case (.personalization(let a), .personalization(let b)), (.rollout(let a), .rollout(let b)),
            (.experiment(let a), .experiment(let b)):
            a.encoded() == b.encoded()
        default: false
        }
    }

    /// Firebase's `RemoteConfigParameterValue`.
    package var json: JSONValue {
        switch self {
        case .value(let text): ["value": .string(text)]
        case .inAppDefault: ["useInAppDefault": true]
        case .personalization(let content): ["personalizationValue": content]
        case .rollout(let content): ["rolloutValue": content]
        case .experiment(let content): ["experimentValue": content]
        }
    }

    /// The texts clients may get from this value: none, one, or one per variant of an experiment.
    package var texts: [String] {
        switch self {
        case .value(let text): [text]
        case .inAppDefault, .personalization: []
        case .rollout(let content): content["value"]?.string.map { [$0] } ?? []
        case .experiment(let content): (content["variantValue"]?.array ?? []).compactMap { $0["value"]?.string }
        }
    }
}

/// Parameters shown together in the console.
package struct ParameterGroup: Sendable, Hashable {
    /// Description for people, at most 256 characters; empty when none.
    package var description: String
    /// Parameters by name; a name is unique over the whole template.
    package var parameters: [String: TemplateParameter]

    package init(description: String = "", parameters: [String: TemplateParameter] = [:]) {
        self.description = description
        self.parameters = parameters
    }

    /// `{"description","parameters"}`, the first only when not empty.
    package var json: JSONValue {
        [
            "description": description.isEmpty ? nil : .string(description),
            "parameters": parameters.sortedJSON { $0.json },
        ]
    }
}
