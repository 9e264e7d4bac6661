import StalecastTemplate
import StalecastTestSupport
import StalecastWire
import Testing

/// Numbers in templates, and in what clients say of themselves. Nothing here expects a particular answer but that there is
/// one: a trap ends the process, and with it the tests.
@Suite struct BoundaryNumberTests {
    /// `§` is the number.
    private static let expressions = [
        "percent <= §", "percent('s') > §", "percent('s') between § and 10", "percent between 0 and §",
        "app.version.>=(['§'])", "app.build.==(['§'])", "app.userProperty['a'] >= §", "app.customSignal['a'] != §",
        "version(app.customSignal['a']) >= '§'", "version(app.customSignal['a']) < '1.§.§'",
        "app.customSignal['a'].matches(['x{§}'])", "app.customSignal['a'].matches(['(?:x{0,§}){§,}'])",
        "app.customSignal['a'].matches(['\\x{§}'])", "dateTime >= dateTime('§-01-01T00:00:00')",
        "dateTime < dateTime('2026-01-01T00:00:§', 'UTC')", "dateTime < dateTime('2026-01-01T00:00:00')",
        "app.firstOpenTimestamp < ('§-01-01T00:00:00')", "app.firstOpenTimestamp < ('2026-01-01T00:00:00', 'UTC')",
    ]
    private static let documents = [
        #"{"parameters":{"a":{"defaultValue":{"value":"§"},"valueType":"NUMBER"}}}"#,
        #"{"parameters":{"a":{"defaultValue":{"value":§},"valueType":"NUMBER"}}}"#,
        #"{"parameters":{"a":{"defaultValue":{"value":"[§,{\"b\":§}]"},"valueType":"JSON"}}}"#,
        #"{"version":{"versionNumber":"§"},"parameters":{}}"#, #"{"version":{"versionNumber":§},"parameters":{}}"#,
        #"{"parameters":{"a":{"defaultValue":{"rolloutValue":{"rolloutId":"rollout_§","value":"x","percent":§}}}}}"#,
        """
        {"parameters":{"a":{"defaultValue":{"experimentValue":{"experimentId":"§","exposurePercent":§,"variantValue":[
        {"variantId":"0","value":"x","weight":§},{"variantId":"1","noChange":true,"weight":§}]}}}}}
        """,
        #"{"parameters":{"a":{"defaultValue":{"personalizationValue":{"personalizationId":"§"}}}}}"#,
    ]

    @Test(arguments: boundaryNumbers) func conditionsAreDecided(number: String) {
        for kind in TemplateKind.allCases {
            let conditions = Self.expressions.enumerated().map { index, expression in
                TemplateCondition(name: "c\(index)", expression: expression.replacing("§", with: number))
            }
            let legal = conditions.filter { (try? ConditionExpression(parsing: $0.expression, kind: kind)) != nil }
            #expect(legal.count >= 2, "those without the number")
            let compiled = CompiledTemplate(Template(conditions: legal, parameters: [:]), kind: kind)
            for time in [Int64.min, 0, .max].map(Timestamp.init(microseconds:)) {
                let explained = compiled.explain(Self.context(number, time))
                #expect(explained.conditions.allSatisfy { !$0.reason.isEmpty })
            }
        }
    }

    @Test(arguments: boundaryNumbers) func templatesAreTakenOrRefused(number: String) {
        for document in Self.documents {
            for kind in TemplateKind.allCases {
                guard let json = try? JSONValue.parse(document.replacing("§", with: number).utf8),
                    let template = try? Template(validating: json, kind: kind)
                else { continue }
                let compiled = CompiledTemplate(template, kind: kind)
                _ = compiled.values(for: compiled.outcome(for: Self.context(number, .now())))
                #expect(Template.isReadBack(template, kind))
            }
        }
    }

    private static func context(_ number: String, _ time: Timestamp) -> EvaluationContext {
        EvaluationContext(
            appID: "1:\(number):ios:a", appInstanceID: number, timeZone: "Europe/Paris", appVersion: number,
            appBuild: number, firstOpenTime: time, analyticsUserProperties: ["a": number],
            customSignals: ["a": number], now: time)
    }
}

extension Template {
    /// Whether what is written of it is the same template.
    fileprivate static func isReadBack(_ template: Template, _ kind: TemplateKind) -> Bool {
        (try? Template(validating: template.json, kind: kind)) == template
    }
}
