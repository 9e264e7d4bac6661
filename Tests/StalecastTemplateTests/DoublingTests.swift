import StalecastTemplate
import StalecastTestSupport
import StalecastWire
import Testing

/// Tests that publishes and watched sources cause work in proportion to what they send.
@Suite struct DoublingTests {
    @Test(arguments: [
        GrowingText("'a',", after: "device.country in [", before: "'b']"),
        GrowingText("a", after: "app.id == '", before: "'"), GrowingText("\\'", after: "app.id == '", before: "'"),
        GrowingText("percent <= 10 && "), GrowingText("true && ", before: "true"), GrowingText("!"), GrowingText("("),
        GrowingText(" "), GrowingText("a"), GrowingText("1", after: "percent <= "),
        GrowingText("1.", after: "app.version.<(['", before: "'])"),
        GrowingText("é", after: "app.userProperty['", before: "'] == 'a'"),
        GrowingText("\u{315}\u{300}", after: "app.id == 'a"),
        GrowingText("'#',", after: "app.version.contains(['", before: "'])"),
        GrowingText("'a*#',", after: "app.version.matches([", before: "'b'])"),
        GrowingText("\n", before: "x"),
    ])
    func readingAConditionIsLinear(expression: GrowingText) throws {
        for kind in TemplateKind.allCases {
            try expectLinear(upTo: 1 << 16, expression.text) { _ = try ConditionExpression(parsing: $0, kind: kind) }
        }
    }

    /// Parses it as the only regular expression of a condition.
    @Test(arguments: [
        GrowingText("[:", after: "[", before: "a]"), GrowingText("[:alpha:]", after: "[", before: "]"),
        GrowingText("[:^x", after: "["), GrowingText("(?:", before: ""), GrowingText("(?i)", before: "a"),
        GrowingText("(a|", before: ""), GrowingText("|"), GrowingText("a|"), GrowingText("a{1", before: ""),
        GrowingText("{1,", after: "a"), GrowingText("a{2}"), GrowingText("(a*)*", before: ""),
        GrowingText("\\\\p{L}", after: "[", before: "]"),
        GrowingText("L", after: "\\\\p{", before: "}"), GrowingText("\\\\Q", before: ""),
        GrowingText("a", after: "\\\\Q"),
        GrowingText("a-z", after: "[", before: "]"), GrowingText("é-ü", after: "(?i)[", before: "]"),
        GrowingText("\\\\x{41}"), GrowingText("0", after: "\\\\x{", before: "}"),
        GrowingText("a", after: "(?P<", before: ">b)"),
        GrowingText("9", after: "a{", before: "}"), GrowingText("[^\\\\d\\\\s]"), GrowingText("ſK", after: "(?i)"),
    ])
    func readingARegularExpressionIsLinear(pattern: GrowingText) throws {
        // The longest that is read, and longer than that.
        for size in [2000, 1 << 15] {
            try expectLinear(upTo: size, { "app.version.matches(['\(pattern.text($0))'])" }) {
                _ = try ConditionExpression(parsing: $0, kind: .client)
            }
        }
    }

    /// Groups nest 50 deep at most, and each level costs what the one before did.
    @Test func nestedRepetitionsAreLinear() throws {
        for repetition in ["*", "+", "?", "{0,1}", "{1,}"] {
            try expectLinear(upTo: 48) { depth in
                let pattern =
                    String(repeating: "(", count: depth) + "a" + String(repeating: ")\(repetition)", count: depth)
                return "app.version.matches(['\(pattern)'])"
            } _: {
                _ = try ConditionExpression(parsing: $0, kind: .client)
            }
        }
    }

    // MARK: Templates

    /// Limits are judged after the reading: what is refused must be cheap, too.
    private static let unlimited: TemplateLimits = {
        var limits = TemplateLimits()
        (limits.parameters, limits.conditions, limits.groups) = (.max, .max, .max)
        (limits.keyLength, limits.descriptionLength, limits.totalValueLength) = (.max, .max, .max)
        return limits
    }()

    private static let templates = [
        GrowingText(#""p#":{"defaultValue":{"value":"v"}},"#, after: #"{"parameters":{"#, before: #""q":{}}}"#),
        GrowingText(
            #"{"name":"c#","expression":"percent <= 10"},"#, after: #"{"conditions":["#,
            before: #"{"name":"z","expression":"true"}]}"#),
        GrowingText(
            #""c#":{"value":"v"},"#, after: #"{"parameters":{"p":{"conditionalValues":{"#, before: #""z":{}}}}}"#),
        GrowingText(#""g#":{"parameters":{"p#":{}}},"#, after: #"{"parameterGroups":{"#, before: #""h":{}}}"#),
        GrowingText("a_", after: #"{""#, before: #"":1}"#),
        GrowingText(#""unknown_#":1,"#, after: "{", before: #""":0}"#),
        GrowingText("é", after: #"{"parameters":{"#, before: #"":{}}}"#),
        GrowingText("x", after: #"{"parameters":{"p":{"description":""#, before: #""}}}"#),
        GrowingText("\u{315}\u{300}", after: #"{"parameters":{"p":{"description":"a"#, before: #""}}}"#),
        GrowingText(
            #""p#":{"valueType":"NUMBER","defaultValue":{"value":"x"}},"#, after: #"{"parameters":{"#,
            before: #""q":{}}}"#),
    ]

    @Test(arguments: templates) func validatingATemplateIsLinear(template: GrowingText) throws {
        try expectLinear(upTo: 1 << 16, { try? JSONValue.parse(template.bytes($0)) }) { json in
            _ = try json.map { try Template(validating: $0, kind: .client, limits: Self.unlimited) }
        }
    }

    @Test func comparingAndCompilingTemplatesIsLinear() throws {
        let conditions = Self.templates[1]
        for text in [Self.templates[0], conditions, Self.templates[3]] {
            try expectLinear(upTo: 1 << 16) { size -> Template? in
                try? Template(validating: JSONValue.parse(text.bytes(size)), kind: .client, limits: Self.unlimited)
            } _: { template in
                guard let template else { return }
                _ = TemplateDifference.changedKeys(from: Template(), to: template)
                _ = TemplateChanges(from: Template(), to: template)
                _ = CompiledTemplate(template, kind: .client)
            }
        }
    }

    // MARK: What instances say of themselves

    @Test(arguments: [
        GrowingText("a-"), GrowingText("1."), GrowingText("a"), GrowingText("a\u{315}\u{300}\u{315}\u{300}"),
        GrowingText("9"),
        GrowingText("/"),
    ])
    func evaluatingWhatAnInstanceSaysIsLinear(text: GrowingText) throws {
        let expressions = [
            "app.version.>=(['1.2.3'])", "app.version.matches(['(a|aa)*b'])", "device.language in ['de']",
            "device.country in ['DE']", "app.customSignal['s'].contains(['ab'])", "app.customSignal['s'] > 3",
            "app.userProperty['u'].matches(['a+b'])", "version(app.customSignal['s']) > '1.2'", "percent['x'] <= 50",
            "dateTime < dateTime('2030-01-01T00:00:00')",
        ]
        let template = Template(
            conditions: expressions.enumerated().map { TemplateCondition(name: "c\($0)", expression: $1) },
            parameters: [
                "p": TemplateParameter(
                    conditionalValues: Dictionary(
                        uniqueKeysWithValues: expressions.indices.map { ("c\($0)", ParameterValue.value("\($0)")) }))
            ])
        let compiled = CompiledTemplate(template)
        try expectLinear(upTo: 1 << 15, text.text) { text in
            _ = compiled.outcome(
                for: EvaluationContext(
                    appID: text, appInstanceID: text, countryCode: text, languageCode: text, timeZone: text,
                    appVersion: text, analyticsUserProperties: ["u": text], customSignals: ["s": text],
                    now: Timestamp(microseconds: 0)))
        }
    }

    /// Takes a text that is no country, which was hashed for each condition: 228 ms for 60 KB and 1,000 conditions.
    @Test func aLongCountryIsLookedAtOnce() {
        let conditions = (0..<500).map { number in
            let (first, second) = (UnicodeScalar(UInt8(65 + number % 26)), UnicodeScalar(UInt8(65 + number / 26)))
            return TemplateCondition(name: "c\(number)", expression: "device.country in ['\(first)\(second)']")
        }
        let parameters = conditions.map { ($0.name, TemplateParameter(conditionalValues: [$0.name: .value("x")])) }
        let template = CompiledTemplate(
            Template(conditions: conditions, parameters: Dictionary(uniqueKeysWithValues: parameters)))
        func cost(_ country: String) -> UInt64 {
            let context = EvaluationContext(appInstanceID: "a", countryCode: country)
            return (0..<8).map { _ in
                let began = threadNanoseconds()
                _ = template.outcome(for: context)
                return threadNanoseconds() - began
            }.min() ?? 0
        }
        #expect(cost(String(repeating: "a", count: 60_000)) < 9 * cost("??"))
    }
}
