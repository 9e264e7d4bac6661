import StalecastTemplate
import StalecastWire
import Testing

@Suite struct TemplateValidationTests {
    /// A parameter without fault.
    private static let empty = #"{"defaultValue":{"value":""}}"#
    /// A document's beginning: one condition, `c`.
    private static let withCondition = #"{"conditions":[{"name":"c","expression":"true"}],"parameters":"#

    @Test func unknownConditionNamesAreNamedTogetherInGooglesWords() throws {
        let found = try problems(
            #"""
            {"parameters":{"a":{"conditionalValues":{"foo":{"value":"1"}}}},
             "parameterGroups":{"g":{"parameters":{
               "b":{"conditionalValues":{"bar":{"value":"1"},"foo":{"value":"1"}}}}}}}
            """#)
        #expect(
            found.message == "[VALIDATION_ERROR]: [bar, foo] are not valid condition names. "
                + "All keys in all conditional value maps must be valid condition names.")
    }

    /// Each text has exactly one problem, of this token, at this path, with this in its message.
    @Test(arguments: [
        (#"[]"#, "INVALID_ARGUMENT", "", "an object is expected, not an array"),
        (#"{"x":1}"#, "INVALID_ARGUMENT", "x", #"there is no "x" here; known: conditions, parameters, "#),
        (
            #"{"parameters":{"a":{"defaultValue":{"value":"1"},"typo":1}}}"#, "INVALID_ARGUMENT", "parameters.a.typo",
            #"parameters.a: there is no "typo" here; known: defaultValue, "#
        ),
        (
            #"{"conditions":[{"name":"c","expression":"true","color":"BLUE"}]}"#, "INVALID_ARGUMENT",
            "conditions[0].color", #"conditions[0]: there is no "color" here"#
        ),
        (#"{"conditions":{}}"#, "INVALID_ARGUMENT", "conditions", "an object"),
        (#"{"conditions":[1]}"#, "INVALID_ARGUMENT", "conditions[0]", "an object is expected, not 1"),
        (#"{"parameters":[]}"#, "INVALID_ARGUMENT", "parameters", "an array"),
        (#"{"parameters":{"a":null}}"#, "INVALID_ARGUMENT", "parameters.a", "null"),
        (#"{"parameterGroups":{"g":{"parameters":[]}}}"#, "INVALID_ARGUMENT", "parameterGroups.g.parameters", "array"),
        (
            #"{"parameters":{"a":{"defaultValue":{"value":10},"valueType":"NUMBER","conditionalValues":{}}}}"#,
            "INVALID_ARGUMENT", "parameters.a.defaultValue.value", "a text in quotes is expected, not 10"
        ),
        (
            #"{"parameters":{"a":{"defaultValue":{"value":"x"},"valueType":"TEXT"}}}"#, "INVALID_ARGUMENT",
            "parameters.a.valueType", "\"TEXT\" is none of its words; known: STRING, BOOLEAN, NUMBER, JSON"
        ),
        (
            #"{"parameters":{"a":{"defaultValue":{"value":"x"},"valueType":"NUMBR"}}}"#, "INVALID_ARGUMENT",
            "parameters.a.valueType", #"did you mean "NUMBER"?"#
        ),
        (
            #"{"parameters":{"a":{"default_valu":{"value":"x"},"defaultValue":{"value":"x"}}}}"#, "INVALID_ARGUMENT",
            "parameters.a.default_valu", #"there is no "default_valu" here; did you mean "defaultValue"?"#
        ),
        (
            #"{"conditions":[{"name":"c","expression":"true","tagColor":"MAUVE"}]}"#, "INVALID_ARGUMENT",
            "conditions[0].tagColor", "MAUVE"
        ),
        (
            #"{"parameters":{"a":{"defaultValue":{"value":"x"},"default_value":{"value":"y"}}}}"#, "INVALID_ARGUMENT",
            "parameters.a", "two spellings"
        ),
        (
            #"{"version":{"description":7}}"#, "INVALID_ARGUMENT", "version.description",
            "a text in quotes is expected, not 7"
        ),
        (
            #"{"version":{"description":"cut\u0000here"}}"#, "VALIDATION_ERROR", "version.description",
            "the control character U+0000 is not allowed"
        ),
        (#"{"parameters":{"a":{}}}"#, "VALIDATION_ERROR", "parameters.a", "default value or at least one"),
        (#"{"parameters":{"":{"defaultValue":{"value":""}}}}"#, "VALIDATION_ERROR", "parameters.", "no parameter name"),
        (
            #"{"parameters":{"1a":{"defaultValue":{"value":""}}}}"#, "VALIDATION_ERROR", "parameters.1a",
            "no digit first"
        ),
        (
            #"{"parameters":{"a-b":{"defaultValue":{"value":""}}}}"#, "VALIDATION_ERROR", "parameters.a-b",
            "A-Z a-z 0-9 _"
        ),
        (#"{"parameters":{"é":{"defaultValue":{"value":""}}}}"#, "VALIDATION_ERROR", "parameters.é", "'é'"),
        (
            #"{"parameters":{"toString":{"defaultValue":{"value":""}}}}"#, "VALIDATION_ERROR", "parameters.toString",
            "reserved"
        ),
        (
            #"{"parameters":{"__proto__":{"defaultValue":{"value":""}}}}"#, "VALIDATION_ERROR", "parameters.__proto__",
            "reserved"
        ),
        (
            #"{"parameters":{"a":\#(empty)},"parameterGroups":{"g":{"parameters":{"a":\#(empty)}}}}"#,
            "DUPLICATE_KEY", "parameterGroups.g.parameters.a", "used once"
        ),
        (
            #"{"parameterGroups":{"g":{"parameters":{"a":\#(empty)}},"h":{"parameters":{"a":\#(empty)}}}}"#,
            "DUPLICATE_KEY", "parameterGroups.h.parameters.a", "parameterGroups.g"
        ),
        (
            #"{"parameters":{"a":{"defaultValue":{"value":""}}},"parameterGroups":{"a":{"parameters":{}}}}"#,
            "DUPLICATE_KEY", "parameterGroups.a", "of a group and of a parameter"
        ),
        (
            #"{"conditions":[{"name":"c","expression":"true"},{"name":"c","expression":"false"}]}"#, "DUPLICATE_KEY",
            "conditions[1]", "another condition 'c'"
        ),
        (#"{"conditions":[{"name":"c"}]}"#, "VALIDATION_ERROR", "conditions[0].expression", "at character 1"),
        (#"{"conditions":[{"expression":"true"}]}"#, "VALIDATION_ERROR", "conditions[0].name", "no condition name"),
        (
            #"{"conditions":[{"name":" c","expression":"true"}]}"#, "VALIDATION_ERROR", "conditions[0].name",
            "no blank first"
        ),
        (
            #"{"conditions":[{"name":"a\nb","expression":"true"}]}"#, "VALIDATION_ERROR", "conditions[0].name",
            "a\u{FFFD}b"
        ),
        (
            #"{"conditions":[{"name":"c","expression":"true || false"}]}"#, "VALIDATION_ERROR",
            "conditions[0].expression",
            "condition 'c': Expected exactly one term in OR condition here at character 6"
        ),
        (#"{"parameterGroups":{"":{"parameters":{}}}}"#, "VALIDATION_ERROR", "parameterGroups.", "needs a name"),
    ])
    func oneProblemIsReportedAtItsPlace(text: String, token: String, path: String, message: String) throws {
        let found = try problems(text)
        #expect(found.problems.map(\.token) == [token], "\(found)")
        #expect(found.problems.map(\.path) == [path])
        #expect(found.message.contains(message), "\(found)")
        #expect(found.message.hasPrefix("[\(token)]: ") == (token != "INVALID_ARGUMENT"))
    }

    @Test(arguments: [
        #"{}"#, #"{"value":"1","useInAppDefault":true}"#, #"{"useInAppDefault":false}"#, #"{"useInAppDefault":"true"}"#,
        #"{"value":null}"#, #"{"rolloutValue":"x"}"#, #"{"rolloutValue":{"rolloutId":"r"},"personalizationValue":{}}"#,
        #"{"values":"1"}"#, #"null"#, #""1""#,
    ])
    func valueThatIsNotExactlyOneOfItsKindsIsRefused(value: String) throws {
        let text =
            Self.withCondition + #"{"a":{"conditionalValues":{"c":\#(value)}}}}"#
        let found = try problems(text)
        #expect(found.problems.first?.path.hasPrefix("parameters.a.conditionalValues.c") == true, "\(found)")
    }

    @Test func inAppDefaultFalseHasItsOwnToken() throws {
        let found = try problems(#"{"parameters":{"a":{"defaultValue":{"useInAppDefault":false}}}}"#)
        #expect(found.problems.first?.token == "INVALID_IN_APP_DEFAULT_VALUE")
    }

    @Test(arguments: [
        ("BOOLEAN", ["true", "FALSE", "True"], ["", "yes", "1", "true "]),
        (
            "NUMBER", ["0", "-1", "1.5", ".5", "-.5", "00.10"],
            ["", "-", ".", "1.", "+1", "1e3", "1.2.3", "--1", "１", " 1"]
        ),
        ("JSON", ["{}", "[1]", "null", "\\\"x\\\"", "1"], ["", "{", "{'a':1}", "undefined", "{} {}"]),
        ("STRING", ["", "anything"], []),
    ])
    func valuesFitTheirType(type: String, good: [String], bad: [String]) throws {
        let text = { (value: String) in
            #"{"conditions":[{"name":"c","expression":"true"}],"parameters":{"a":{"valueType":"\#(type)","#
                + #""conditionalValues":{"c":{"value":"\#(value)"}}}}}"#
        }
        for value in good { #expect(throws: Never.self, "\(value)") { try Template.make(text(value)) } }
        for value in bad {
            let found = try problems(text(value))
            #expect(found.problems.map(\.token) == ["PARAM_VALUE_TYPE_MISMATCH"])
            #expect(found.problems.map(\.path) == ["parameters.a.conditionalValues.c"])
        }
    }

    @Test(arguments: ["1e999", "-1e999", "-1", "100.5", "\"50\"", "[50]", "true"])
    func aShareThatIsNoPercentageIsRefused(percent: String) throws {
        let values = [
            #"{"rolloutValue":{"rolloutId":"r","value":"on","percent":\#(percent)}}"#,
            #"{"experimentValue":{"experimentId":"e","variantValue":[],"exposurePercent":\#(percent)}}"#,
        ]
        for value in values {
            let found = try problems(Self.withCondition + #"{"a":{"conditionalValues":{"c":\#(value)}}}}"#)
            #expect(found.problems.count == 1 && found.problems[0].path.hasSuffix("ercent"), "\(found)")
        }
    }

    @Test(arguments: ["0", "100", "1e2", "0.000001", "25.10", "null"])
    func aShareOfNothingToAllIsTaken(percent: String) throws {
        let value = #"{"rolloutValue":{"rolloutId":"r","value":"on","percent":\#(percent)}}"#
        _ = try Template.make(Self.withCondition + #"{"a":{"conditionalValues":{"c":\#(value)}}}}"#)
    }

    @Test func rolloutValuesAreCheckedForTheirTypeToo() throws {
        let found = try problems(
            Self.withCondition + #"{"a":{"valueType":"BOOLEAN","conditionalValues":"#
                + #"{"c":{"rolloutValue":{"rolloutId":"r","value":"on","percent":5}}}}}}"#)
        #expect(found.problems.map(\.token) == ["PARAM_VALUE_TYPE_MISMATCH"])
    }

    /// Line and column of the name that is wrong, or of the deepest part of its path that is there.
    @Test func problemsSayWhereInTheTextTheyAre() throws {
        let text = """
            \u{FEFF}{ "conditions": [ {"name": "c", "expression": "true"},
                {"name": "d", "expression": "tru"} ],
              "parameters": { "a\\u0062": { "defaultValue": {"value": 1}, "typo": [1, {"x": "\\"}]\\\\"}] },
                "c": {},
                "e": { "default_value": {"valu": "1"} }
              },
              "paramters": {}
            }
            """
        let json = try JSONValue.parse(text.utf8)
        let found = try #require(throws: TemplateProblems.self) {
            try Template(validating: json, from: Array(text.utf8), kind: .client)
        }
        let places = Dictionary(uniqueKeysWithValues: found.problems.map { ($0.path, $0.place) })
        #expect(places["paramters"] == TextPlace(line: 7, column: 3))
        #expect(places["conditions[1].expression"] == TextPlace(line: 2, column: 19))
        #expect(places["parameters.ab.defaultValue.value"] == TextPlace(line: 3, column: 49))
        #expect(places["parameters.ab.typo"] == TextPlace(line: 3, column: 62))
        #expect(places["parameters.c"] == TextPlace(line: 4, column: 5))
        #expect(places["parameters.e.defaultValue.valu"] == TextPlace(line: 5, column: 30))
        #expect(found.message.contains(#"there is no "paramters" here; did you mean "parameters"? (line 7, column 3)"#))
    }

    @Test func severalProblemsAreReportedTogetherUpToALimit() throws {
        let parameters = (0..<50).map { "\"\($0)\":{\"defaultValue\":{\"value\":\"\"}}" }.joined(separator: ",")
        let found = try problems("{\"parameters\":{\(parameters)}}")
        #expect(found.problems.count == TemplateProblems.maxListed)
        #expect(found.omitted == 30)
        #expect(found.message.hasSuffix("… and 30 more problems"))
        #expect(found.message.split(separator: "\n").count == 21)
    }

    @Test func problemsOfShapeAndOfRulesComeTogether() throws {
        let found = try problems(
            #"{"extra":1,"conditions":[{"name":"c","expression":"!true"}],"parameters":{"a b":\#(Self.empty)}}"#
        )
        #expect(found.problems.map(\.path) == ["extra", "conditions[0].expression", "parameters.a b"])
    }

    @Test func hostileNamesAreShownClippedAndHarmless() throws {
        let name = "\\u001b[2J\\r\\n\\u2028" + String(repeating: "x", count: 5000)
        let found = try problems("{\"parameters\":{\"\(name)\":{}},\"\(name)\":1}")
        #expect(found.message.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x2028 || $0 == "\n" })
        #expect(found.message.utf8.count < 2000)
    }
}
