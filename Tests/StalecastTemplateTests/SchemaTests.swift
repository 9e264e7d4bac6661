import Foundation
import StalecastTemplate
import StalecastWire
import Testing

/// JSON Schemas of parameters: what is allowed, what is refused and with which words.
@Suite struct SchemaTests {
    /// A template whose JSON parameter `p` has a schema and a default value.
    private func template(
        _ schema: String, _ value: String, type: String = "JSON", expression: String = "false", more: JSONObject = [:]
    ) -> JSONValue {
        var values = more
        values["JSON Schema"] = ["value": .string(schema)]
        return [
            "conditions": [
                ["name": "c", "expression": "true"], ["name": "JSON Schema", "expression": .string(expression)],
            ],
            "parameters": [
                "p": [
                    "valueType": .string(type), "defaultValue": ["value": .string(value)],
                    "conditionalValues": .object(values),
                ]
            ],
        ]
    }

    private func problems(_ template: JSONValue) -> [String] {
        do {
            _ = try Template(validating: template, kind: .client)
            return []
        } catch { return error.problems.map(\.message) }
    }

    private static let values: [(schema: String, accepted: [String], refused: [String])] = [
        ("true", ["1", "null"], []), ("false", [], ["1"]), ("{}", ["[]"], []),
        (#"{"type":"integer"}"#, ["1", "1.0", "10e-1", "-0"], ["1.5", #""1""#, "1e-1"]),
        (#"{"type":["null","boolean"]}"#, ["null", "false"], ["0", "{}"]),
        (#"{"enum":[1,"é",{"a":1,"b":[2.0]}]}"#, ["1.0", #""é""#, #"{"b":[2],"a":1e0}"#], [#""e\u0301""#, "[1]"]),
        (#"{"const":9007199254740993}"#, ["9007199254740993"], ["9007199254740992", "9007199254740993.5"]),
        (#"{"minimum":-1.5,"exclusiveMaximum":1e2}"#, ["-1.5", "99.999", #""x""#], ["-1.51", "100", "1e400"]),
        (#"{"maximum":0,"exclusiveMinimum":-1}"#, ["-0.5", "0e9"], ["-1.0", "1e-400"]),
        (#"{"multipleOf":0.01}"#, ["0.07", "1e300", "-3"], ["0.075", "1e-300"]),
        (#"{"multipleOf":700}"#, ["0", "7e2", "4900"], ["490", "7e1"]),
        (#"{"minLength":2,"maxLength":2}"#, [#""😀é""#, "1"], [#""a""#, #""abc""#]),
        (#"{"pattern":"b+$"}"#, [#""ab""#, "1"], [#""ba""#]),
        (
            #"{"prefixItems":[{"type":"number"}],"items":{"type":"string"}}"#, ["[]", #"[1,"a"]"#],
            [#"["a"]"#, "[1,2]"]
        ),
        (#"{"minItems":1,"maxItems":2,"uniqueItems":true}"#, ["[1,true]", "{}"], ["[]", "[1,1.0]", "[1,2,3]"]),
        (
            #"{"properties":{"a":{"const":1}},"patternProperties":{"^x":{"type":"null"}},"additionalProperties":false}"#,
            [#"{"a":1,"x1":null}"#, "1"], [#"{"a":2}"#, #"{"x":1}"#, #"{"b":1}"#]
        ),
        (#"{"required":["é"],"minProperties":1,"maxProperties":2}"#, [#"{"é":1}"#], [#"{"e\u0301":1}"#, "{}"]),
        (#"{"propertyNames":{"maxLength":1}}"#, [#"{"a":1}"#], [#"{"ab":1}"#]),
        (#"{"allOf":[{"minimum":1},{"maximum":2}],"not":{"const":2}}"#, ["1"], ["0", "2", "3"]),
        (#"{"anyOf":[{"type":"null"},{"minimum":5}]}"#, ["null", "5", "[]"], ["4"]),
        (#"{"oneOf":[{"multipleOf":2},{"multipleOf":3}]}"#, ["2", "3"], ["6", "5"]),
        (
            #"{"if":{"required":["a"]},"then":{"required":["b"]},"else":{"maxProperties":0}}"#,
            [#"{"a":1,"b":1}"#, "{}"], [#"{"a":1}"#, #"{"b":1}"#]
        ),
        (
            ##"{"$defs":{"t":{"properties":{"next":{"$ref":"#/$defs/t"}},"additionalProperties":false}},"$ref":"#/$defs/t"}"##,
            [#"{"next":{"next":{}}}"#], [#"{"next":{"nxt":{}}}"#]
        ),
        (##"{"items":{"$ref":"#"},"maxItems":1}"##, ["[[[]]]"], ["[[[],[]]]"]),
        (#"{"format":"date","title":"t","x-owner":1,"then":false,"default":1}"#, ["1"], []),
    ]

    @Test func valuesAreJudgedAsTheDraftSays() {
        for (schema, accepted, refused) in Self.values {
            for value in accepted { #expect(problems(template(schema, value)) == [], "\(schema) \(value)") }
            for value in refused { #expect(problems(template(schema, value)).count == 1, "\(schema) \(value)") }
        }
    }

    @Test func theSentenceNamesParameterPlaceAndReason() {
        let schema = #"{"properties":{"a/b":{"items":{"type":"number"}}},"additionalProperties":false}"#
        #expect(
            problems(template(schema, #"{"a/b":[1,"x"]}"#)) == [
                #"parameters.p.defaultValue breaks its JSON Schema at /a~1b/1: "x" is not of type number"#
            ])
        let named = #"{"properties":{"price":{}},"additionalProperties":false}"#
        #expect(
            problems(template(named, #"{"prise":1}"#)) == [
                #"parameters.p.defaultValue breaks its JSON Schema: the member "prise" is not allowed; did you mean "price"?"#
            ])
        let either = #"{"anyOf":[{"type":"string"},{"type":"null"}]}"#
        #expect(
            problems(template(either, "1")) == [
                #"parameters.p.defaultValue breaks its JSON Schema: 1 matches none of the 2 schemas of "anyOf""#
            ])
    }

    @Test func everyValueOfAParameterIsJudged() {
        let conditional = template(#"{"maximum":5}"#, "1", more: ["c": ["value": "6"]])
        #expect(
            problems(conditional) == [
                "parameters.p.conditionalValues.c breaks its JSON Schema: 6 breaks maximum 5"
            ])
        let variants: JSONValue = [
            "experimentValue": ["experimentId": "e", "variantValue": [["value": "2"], ["value": "7"]]]
        ]
        #expect(problems(template(#"{"maximum":5}"#, "1", more: ["c": variants])).count == 1)
        #expect(problems(template(#"{"maximum":5}"#, "1", more: ["c": ["useInAppDefault": true]])) == [])
    }

    private static let badSchemas: [(schema: String, words: String)] = [
        (#"{"minimun":1}"#, #""minimun" is no keyword that is checked here; did you mean "minimum"?"#),
        (#"{"properties":{"a":{"definitions":{}}}}"#, #" at /properties/a: "definitions" is no keyword"#),
        (#"{"unevaluatedProperties":false}"#, #""unevaluatedProperties" is no keyword"#),
        (#"{"type":"text"}"#, #" at /type: "text" is no type; known: null"#), (#"{"type":[]}"#, "not empty"),
        (#"{"enum":{}}"#, "a list that is not empty"), (#"{"pattern":"(?=a)"}"#, "no regular expression"),
        (#"{"pattern":1}"#, "a regular expression in quotes"), (#"{"multipleOf":0}"#, "a number above 0"),
        (#"{"minLength":-1}"#, "a whole number from 0 on"), (#"{"minItems":1.5}"#, "a whole number"),
        (#"{"maximum":"1"}"#, "a number is expected"), (#"{"required":"a"}"#, "a list of names"),
        (#"{"items":[{}]}"#, "prefixItems"), (#"{"uniqueItems":1}"#, "true or false is expected"),
        (#"{"properties":[]}"#, "an object is expected"), (#"{"not":1}"#, "a schema is an object, true or false"),
        (#"{"anyOf":[]}"#, "not empty"), (#"{"then":1}"#, " at /then: a schema is"),
        (##"{"$ref":"#/$defs/a"}"##, #"there is no "a" in $defs"#), (#"{"$ref":"other.json"}"#, "are known, not"),
        (##"{"$ref":"#/properties/a"}"##, "are known, not"),
        (
            #"{"$schema":"http://json-schema.org/draft-07/schema#"}"#,
            "only https://json-schema.org/draft/2020-12/schema"
        ),
        (#"{"items":{"$defs":{}}}"#, "only at the top"), ("[]", "a schema is an object, true or false"),
    ]

    @Test func badSchemasAreRefusedWithTheirPlace() throws {
        for (schema, words) in Self.badSchemas {
            let found = problems(template(schema, "1"))
            let only = try #require(found.first, "\(schema)")
            #expect(found.count == 1 && only.contains(words), "\(only)")
            #expect(only.hasPrefix("parameters.p.conditionalValues.JSON Schema: the schema is refused"), "\(only)")
        }
    }

    @Test func schemasStandOnlyWhereNoClientGetsThem() {
        #expect(problems(template("{}", "1", expression: "true")).first?.contains("must be false") == true)
        #expect(problems(template("{}", "x", type: "STRING")).first?.contains("only a parameter of type JSON") == true)
        #expect(problems(template("{", "1")).count == 1, "no JSON at all")
        let long = #"{"title":"\#(String(repeating: "x", count: 70_000))"}"#
        #expect(problems(template(long, "1")).first?.contains("more than 65536 bytes") == true)
    }

    /// A thread of the static binary has 128 KiB. Frames of a debug build are five times as large.
    @Test func theDeepestChecksFitTheStackOfASmallThread() async throws {
        let deep = String(repeating: "{\"a\":", count: 60) + "1" + String(repeating: "}", count: 60)
        let mixed = ##"{"allOf":[{"oneOf":[{"not":{"not":{"additionalProperties":{"$ref":"#"}}}}]}]}"##
        let schemas = [##"{"not":{"$ref":"#"}}"##, ##"{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}"##, mixed]
        let templates = schemas.map { template($0, deep) }
        let refused = await withCheckedContinuation { answer in
            let thread = Thread { answer.resume(returning: templates.map { problems($0).count }) }
            #if DEBUG
                thread.stackSize = 512 << 10
            #else
                thread.stackSize = 128 << 10
            #endif
            thread.start()
        }
        #expect(refused == [1, 1, 1])
    }

    /// Counted steps, so no test of time is needed: each of them ends within the budget.
    @Test func hostileSchemasEnd() {
        let names = (0..<2000).map { "\"y\($0)\":1" }.joined(separator: ",")
        let patterns = (0..<2000).map { "\"x\($0)\":{}" }.joined(separator: ",")
        let deep = String(repeating: "[", count: 30) + "1" + String(repeating: "]", count: 30)
        let twice = ##"{"items":{"$ref":"#/$defs/a"},"minItems":5},{"items":{"$ref":"#/$defs/a"},"maxItems":0}"##
        for schema in [##"{"$ref":"#"}"##, ##"{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}"##, ##"{"not":{"$ref":"#"}}"##] {
            #expect(problems(template(schema, "1")).first?.contains("more than 128 levels deep") == true, "\(schema)")
        }
        let hostile: [(String, String)] = [
            ("{\"$defs\":{\"a\":{\"anyOf\":[\(twice)]}},\"$ref\":\"#/$defs/a\"}", deep),
            ("{\"patternProperties\":{\(patterns)}}", "{\(names)}"),
            (
                #"{"items":{"pattern":"\#(String(repeating: "(a|aa)*", count: 100))c$"}}"#,
                "["
                    + [String](repeating: "\"\(String(repeating: "a", count: 5000))\"", count: 90).joined(
                        separator: ",") + "]"
            ),
        ]
        for (schema, value) in hostile {
            #expect(problems(template(schema, value)).first?.contains("takes too long") == true, "\(schema.prefix(80))")
        }
        // All parameters of a template share the steps.
        var many = JSONObject()
        for index in 0..<40 {
            many["p\(index)"] = template("{\"patternProperties\":{\(patterns)}}", #"{"y":1}"#)["parameters"]?["p"]
        }
        let together: JSONValue = ["conditions": [SchemaCondition.json], "parameters": .object(many)]
        #expect(problems(together).contains { $0.contains("too large together") })
    }

    @Test func aSchemaChangesNothingForClients() throws {
        let with = try Template(validating: template(#"{"maximum":5}"#, "1"), kind: .client)
        let without = try Template(validating: template("{}", "1"), kind: .client)
        #expect(TemplateDifference.changedKeys(from: with, to: without) == [])
        #expect(!TemplateChanges(from: with, to: without).isEmpty)
        #expect(CompiledTemplate(with).texts == ["1"])
        #expect(try Template(validating: with.json, kind: .client) == with)
        let served = ServerTemplate.json(try Template(validating: template("{}", "1"), kind: .server), version: nil)
        #expect(!served.text().contains("Schema"))
    }

    @Test func aVersionThatIsCurrentElsewhereIsNotJudged() throws {
        let broken = template(#"{"maximum":5}"#, "6")
        #expect(throws: TemplateProblems.self) { try Template(validating: broken, kind: .client) }
        #expect(throws: Never.self) { try Template(validating: broken, kind: .client, limits: .withoutSchemas) }
    }
}
