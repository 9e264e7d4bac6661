import StalecastTemplate
import StalecastWire
import Testing

extension Template {
    /// A checked template from JSON text.
    static func make(_ text: String, kind: TemplateKind = .client, limits: TemplateLimits = .firebase) throws
        -> Template
    {
        try Template(validating: JSONValue.parse(text.utf8), kind: kind, limits: limits)
    }

    /// Parameters `name: default value`, conditions `name: expression` in order.
    static func make(
        _ parameters: [String: String], conditions: KeyValuePairs<String, String> = [:]
    ) -> Template {
        Template(
            conditions: conditions.map { TemplateCondition(name: $0, expression: $1) },
            parameters: parameters.mapValues { TemplateParameter(defaultValue: .value($0)) })
    }
}

/// The problems `text` is refused with; fails the test when it is accepted.
func problems(
    _ text: String, kind: TemplateKind = .client, limits: TemplateLimits = .firebase,
    sourceLocation: SourceLocation = #_sourceLocation
) throws -> TemplateProblems {
    let json = try JSONValue.parse(text.utf8)
    let thrown = #expect(throws: TemplateProblems.self, sourceLocation: sourceLocation) {
        try Template(validating: json, kind: kind, limits: limits)
    }
    return try #require(thrown, sourceLocation: sourceLocation)
}
