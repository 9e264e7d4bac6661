import StalecastSources
import StalecastWire
import Testing

@Suite("Templates written as YAML")
struct YAMLTextTests {
    @Test(arguments: [
        "", " ", "no", "Yes", "null", "~", "true", "1", "-1.5e3", "0x10", "1_000", "2026-11-26", "a: b", "# no remark",
        "- item", "&a",
        "*a", "!tag", "%", "@x", "`x`", "'", "\"", "\\", "{\"a\": [1, 2]}", "one\ntwo", "one\ntwo\n", "\none",
        " one\n two", "one \ntwo",
        "tab\there", "\u{7F}\u{1}", "käse", "👩‍👩‍👧", "\u{2028}", "a\r\nb", "---", "...", "word", "two words", "1st",
        "a-b.c_d", "ends ",
    ])
    func aTextIsReadBackAsItWas(text: String) throws {
        let value: JSONValue = ["value": .string(text), "list": [.string(text)]]
        let yaml = try YAMLContent.text(value)
        #expect(try YAMLContent.parse(Array(yaml.utf8)) == value, "\(yaml)")
    }

    @Test func namesAndOtherValuesAreReadBack() throws {
        let value: JSONValue = [
            "parameters": ["yes": ["defaultValue": ["useInAppDefault": true]], "1": [:], "a: b": .null, "": 7],
            "conditions": [], "number": .number("1.5"), "large": .number("12345678901234567890"),
        ]
        let yaml = try YAMLContent.text(value)
        #expect(try YAMLContent.parse(Array(yaml.utf8)) == value, "\(yaml)")
    }

    @Test func aTemplateReadsWell() throws {
        let value: JSONValue = [
            "parameters": [
                "welcome": ["defaultValue": ["value": "Hello"], "description": "one\ntwo\n", "valueType": "STRING"]
            ]
        ]
        #expect(
            try YAMLContent.text(value) == """
                parameters:
                  welcome:
                    defaultValue:
                      value: Hello
                    description: |
                      one
                      two
                    valueType: STRING

                """)
    }
}
