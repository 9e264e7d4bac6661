import StalecastTemplate
import StalecastWire
import Testing

@Suite struct EvaluationTemplateTests {
    private func values(_ text: String, _ context: EvaluationContext) throws -> ResolvedValues {
        let compiled = CompiledTemplate(try Template.make(text))
        return compiled.values(for: compiled.outcome(for: context))
    }

    private func entries(_ values: ResolvedValues) -> [String: String] {
        Dictionary(uniqueKeysWithValues: values.entries.map { ($0.key, $0.value) })
    }

    private static let ladder = """
        {"conditions": [{"name": "ios", "expression": "device.os == 'ios'"},
                        {"name": "fr", "expression": "device.country in ['FR']"},
                        {"name": "unused", "expression": "app.version.==(['1'])"}],
         "parameters": {
           "a": {"defaultValue": {"value": "0"}, "conditionalValues": {"fr": {"value": "fr"}, "ios": {"value": "ios"}}},
           "b": {"defaultValue": {"value": "0"}, "conditionalValues": {"fr": {"value": ""}}},
           "c": {"defaultValue": {"value": "0"}, "conditionalValues": {"ios": {"useInAppDefault": true},
                 "fr": {"value": "fr"}}},
           "d": {"conditionalValues": {"fr": {"value": "fr"}}},
           "e": {"defaultValue": {"useInAppDefault": true}},
           "f": {"defaultValue": {"value": "0"}, "conditionalValues": {"fr":
                 {"personalizationValue": {"personalizationId": "p"}}}}},
         "parameterGroups": {"g": {"parameters": {"Z": {"defaultValue": {"value": "grouped"}}}}}}
        """

    @Test func firstTrueConditionWinsInTheTemplatesOrder() throws {
        let ios = EvaluationContext(appID: "1:1:ios:a", countryCode: "FR")
        #expect(
            try entries(values(Self.ladder, ios)) == ["a": "ios", "b": "", "d": "fr", "f": "0", "Z": "grouped"])
        let android = EvaluationContext(appID: "1:1:android:a", countryCode: "FR")
        #expect(
            try entries(values(Self.ladder, android))
                == ["a": "fr", "b": "", "c": "fr", "d": "fr", "f": "0", "Z": "grouped"])
        #expect(
            try entries(values(Self.ladder, EvaluationContext()))
                == ["a": "0", "b": "0", "c": "0", "f": "0", "Z": "grouped"])
    }

    @Test func whatMakesNoDifferenceMakesNoOutcome() throws {
        let compiled = CompiledTemplate(try Template.make(Self.ladder))
        let one = compiled.outcome(for: EvaluationContext(countryCode: "FR", appVersion: "1"))
        let two = compiled.outcome(for: EvaluationContext(countryCode: "fr", appVersion: "2"))
        #expect(one == two)
        #expect(one.hashValue == two.hashValue)
        #expect(one != compiled.outcome(for: EvaluationContext(countryCode: "DE", appVersion: "1")))
    }

    private static let rollout = """
        {"conditions": [{"name": "r", "expression": "device.os == 'ios'"}, {"name": "t", "expression": "true"}],
         "parameters": {
           "a": {"defaultValue": {"value": "old"}, "conditionalValues": {
                 "r": {"rolloutValue": {"rolloutId": "rollout_1", "value": "new", "percent": 30}}}},
           "b": {"defaultValue": {"value": "old"}, "conditionalValues": {"t": {"value": "t"},
                 "r": {"rolloutValue": {"rolloutId": "rollout_1", "value": "new", "percent": 30}}}}}}
        """

    @Test func rolloutReachesItsShareAndTellsBothGroups() throws {
        let compiled = CompiledTemplate(try Template.make(Self.rollout))
        var outcomes: [ConditionOutcome: Int] = [:]
        for number in 0..<2000 {
            let context = EvaluationContext(appID: "1:1:ios:a", appInstanceID: "instance\(number)")
            outcomes[compiled.outcome(for: context), default: 0] += 1
        }
        #expect(outcomes.count == 2)
        for (outcome, count) in outcomes {
            let values = compiled.values(for: outcome)
            let isIn = entries(values)["a"] == "new"
            #expect(entries(values)["b"] == (isIn ? "new" : "t"))
            #expect(abs(Double(count) - (isIn ? 600 : 1400)) < 80)
            #expect(
                JSONValue.array(values.rolloutMetadata) == [
                    [
                        "rolloutId": "rollout_1", "variantId": isIn ? "enabled" : "control",
                        "affectedParameterKeys": ["a", "b"],
                    ]
                ])
        }
        let android = compiled.outcome(for: EvaluationContext(appID: "1:1:android:a", appInstanceID: "x"))
        #expect(compiled.values(for: android).rolloutMetadata.isEmpty)
    }

    @Test func experimentSpreadsItsVariantsEvenly() throws {
        let compiled = CompiledTemplate(
            try Template.make(
                """
                {"parameters": {"a": {"defaultValue": {"value": "x"}, "conditionalValues": {"t":
                  {"experimentValue": {"experimentId": "7", "exposurePercent": 60, "variantValue": [
                   {"variantId": "0", "noChange": true}, {"variantId": "1", "value": "b"},
                   {"variantId": "2", "value": ""}]}}}}}, "conditions": [{"name": "t", "expression": "true"}]}
                """))
        var counts: [String: Int] = [:]
        for number in 0..<3000 {
            let values = compiled.values(for: compiled.outcome(for: EvaluationContext(appInstanceID: "i\(number)")))
            let description = values.experimentDescriptions.first
            let variant = description?["variantId"]?.string ?? "none"
            counts[variant, default: 0] += 1
            #expect(entries(values)["a"] == ["none": "x", "0": "x", "1": "b", "2": ""][variant])
            guard let description else { continue }
            #expect(description["experimentId"] == "_exp_7")
            #expect(description["affectedParameterKeys"] == ["a"])
        }
        #expect(counts.keys.sorted() == ["0", "1", "2", "none"])
        #expect(abs((counts["none"] ?? 0) - 1200) < 120)
        for variant in ["0", "1", "2"] { #expect(abs((counts[variant] ?? 0) - 600) < 100) }
    }

    @Test func withoutAnInstallationNothingIsDrawn() throws {
        let values = try values(Self.rollout, EvaluationContext(appID: "1:1:ios:a"))
        #expect(entries(values) == ["a": "old", "b": "t"])
        #expect(values.rolloutMetadata.isEmpty)
    }

    @Test func conditionThatCannotBeUnderstoodIsFalseAndSaysSo() {
        let template = Template(
            conditions: [TemplateCondition(name: "c", expression: "device.moon == 'full'")],
            parameters: ["p": TemplateParameter(conditionalValues: ["c": .value("x")])])
        let explanation = CompiledTemplate(template).explain(EvaluationContext())
        #expect(explanation.conditions.first?.isMatched == false)
        #expect(explanation.conditions.first?.reason.contains("'device.moon' is not an element") == true)
    }

    @Test(arguments: [
        ("device.country in ['FR', 'US']", "device.country is 'DE', not in ['FR', 'US']"),
        ("app.version.>=(['2.1'])", "app.version is '1.0', not >= version 2.1"),
        ("app.build.>=(['2.1'])", "app.build is 'beta', which is no version"),
        ("app.userProperty['x'] > 1", "app.userProperty['x'] is missing: it needs analyticsUserProperties.x"),
        ("device.os == 'ios'", "device.os is missing: it needs appId, such as 1:123456789012:ios:0a1b2c"),
        ("device.language in ['de']", "device.language is missing: it needs languageCode"),
        ("app.userProperty['plan'] > 1", "app.userProperty['plan'] is 'pro', which is no number"),
        ("percent('seed') <= 10", "percent('seed') is bucket 91.483029, not <= 10.000000"),
        ("percent('seed') > 10.5", "percent('seed') is bucket 91.483029, > 10.500000"),
        ("true && false", "always false"),
        ("dateTime > dateTime('2027-01-01T00:00:00')", "dateTime is missing: it needs timeZone"),
        (
            "dateTime > dateTime('2027-01-01T00:00:00', 'UTC')",
            "dateTime is 2026-03-01T00:00:00.000000Z, not > 2027-01-01T00:00:00 in UTC"
        ),
    ])
    func reasonNamesElementValueAndDemand(expression: String, reason: String) throws {
        let context = EvaluationContext(
            appInstanceID: "123", countryCode: "DE", appVersion: "1.0", appBuild: "beta",
            analyticsUserProperties: ["plan": "pro"], now: try #require(Timestamp("2026-03-01T00:00:00Z")))
        let template = Template.make([:], conditions: ["c": expression])
        #expect(CompiledTemplate(template).explain(context).conditions.first?.reason == reason)
    }

    /// Shows what decided each, also those that the app decides itself.
    @Test func everyParameterSaysWhatDecidedIt() {
        let template = Template(
            conditions: [
                TemplateCondition(name: "no", expression: "false"), TemplateCondition(name: "yes", expression: "true"),
                TemplateCondition(name: "late", expression: "true"),
            ],
            parameters: [
                "app": TemplateParameter(defaultValue: .inAppDefault),
                "app_by_condition": TemplateParameter(
                    defaultValue: .value("d"), conditionalValues: ["yes": .inAppDefault]),
                "nothing": TemplateParameter(conditionalValues: ["no": .value("x")]),
                "plain": TemplateParameter(defaultValue: .value("d"), conditionalValues: ["no": .value("x")]),
                "personal": TemplateParameter(
                    defaultValue: .value("d"), conditionalValues: ["yes": .personalization([:]), "late": .value("l")]),
                "chosen": TemplateParameter(
                    defaultValue: .value("d"), conditionalValues: ["late": .value("l"), "yes": .value("y")]),
            ])
        let explanation = CompiledTemplate(template).explain(EvaluationContext())
        let texts = explanation.parameters.map { "\($0.name) \($0.value ?? "-") \($0.condition ?? "-")" }
        #expect(
            texts == [
                "app - -", "app_by_condition - yes", "chosen y yes", "nothing - -", "personal l late", "plain d -",
            ])
        let values = explanation.parameters.compactMap { parameter in parameter.value.map { (parameter.name, $0) } }
        #expect(Dictionary(uniqueKeysWithValues: values) == entries(explanation.values))
        #expect(explanation.json["parameters"]?.array?[1] == ["name": "app_by_condition", "condition": "yes"])
    }

    @Test func contextIsReadInBothSpellings() throws {
        let camel = try EvaluationContext(
            json: .parse(#"{"appId":"1:1:web:a","customSignals":{"n":5,"b":true,"z":null},"timeZone":""}"#.utf8))
        let snake = try EvaluationContext(
            json: .parse(#"{"app_id":"1:1:web:a","custom_signals":{"n":"5","b":"true"},"now":null}"#.utf8))
        #expect(camel.platform == "web")
        #expect(camel.timeZone == nil)
        #expect(camel.customSignals == ["n": "5", "b": "true"])
        #expect(camel.customSignals == snake.customSignals)
        #expect(camel.appID == snake.appID)
    }

    @Test(arguments: [
        ("[]", "a context must be an object, not an array"), (#"{"appId":{}}"#, "appId must be a text, not an object"),
        (#"{"app_id":"a","appId":"b"}"#, "appId is there in two spellings"),
        (#"{"custom_signals":{"a":[]}}"#, "custom_signals.a must be a text, not an array"),
        (#"{"customSignals":"x"}"#, "customSignals must be an object of texts, not a string"),
        (#"{"audiences":["a",{}]}"#, "audiences[1] must be a text, not an object"),
        (#"{"now":"today"}"#, "now must be a moment such as 2026-03-01T09:00:00Z, not 'today'"),
        (#"{"country":"FR"}"#, "country is not a member of a context; known: analyticsUserProperties, appBuild, "),
        (#"{"contryCode":"FR"}"#, "contryCode is not a member of a context; did you mean countryCode?"),
    ])
    func errorInAContextNamesTheField(text: String, message: String) {
        let error = #expect(throws: EvaluationContextError.self) {
            try EvaluationContext(json: JSONValue.parse(text.utf8))
        }
        #expect(error?.description.hasPrefix(message) == true)
    }

    @Test func serverTemplateHasTreesOfItsConditions() throws {
        let template = try Template.make(
            """
            {"conditions": [{"name": "c", "expression": "percent('s1') between 0 and 50 && percent > 0.5 && \
            percent <= 1 && app.customSignal['build'] >= 120 && app.customSignal['a'].notContains(['x', 'y']) && \
            version(app.customSignal['v']) != '1..2' && true"}],
             "parameters": {"model": {"defaultValue": {"value": "small"}, "conditionalValues": {"c":
              {"value": "large"}}}},
             "parameterGroups": {"g": {"parameters": {"z": {"defaultValue": {"useInAppDefault": true}}}}}}
            """, kind: .server)
        let json = ServerTemplate.json(
            template, version: VersionMetadata(number: 12, updateTime: Timestamp(microseconds: 0)))
        let and = json["conditions"]?.array?.first?["condition"]?["orCondition"]?["conditions"]?.array?.first
        let expected = try JSONValue.parse(
            """
            [{"percent":{"percentOperator":"BETWEEN","microPercentRange":{"microPercentLowerBound":0,
             "microPercentUpperBound":50000000},"seed":"s1"}},
             {"percent":{"percentOperator":"GREATER_THAN","microPercent":500000,"seed":""}},
             {"percent":{"percentOperator":"LESS_OR_EQUAL","microPercent":1000000,"seed":""}},
             {"customSignal":{"customSignalOperator":"NUMERIC_GREATER_EQUAL","customSignalKey":"build",
              "targetCustomSignalValues":["120"]}},
             {"customSignal":{"customSignalOperator":"STRING_DOES_NOT_CONTAIN","customSignalKey":"a",
              "targetCustomSignalValues":["x","y"]}},
             {"customSignal":{"customSignalOperator":"SEMANTIC_VERSION_NOT_EQUAL","customSignalKey":"v",
              "targetCustomSignalValues":["1.0.2"]}}, {"true":{}}]
            """.utf8)
        #expect(and?["andCondition"]?["conditions"] == expected)
        #expect(json["parameters"]?["model"]?["conditionalValues"]?["c"] == ["value": "large"])
        #expect(json["parameters"]?["z"]?["defaultValue"] == ["useInAppDefault": true])
        #expect(json["version"]?["versionNumber"] == "12")
    }
}
