import StalecastSources
import StalecastWire
import Testing

@Suite struct YAMLContentTests {
    private static func parse(_ text: String) throws -> String {
        try YAMLContent.parse(Array(text.utf8)).text(JSONStyle(asciiOnly: false))
    }

    @Test(arguments: [
        ("a: 1", #"{"a":1}"#), ("a: '1'", #"{"a":"1"}"#), ("a: \"true\"", #"{"a":"true"}"#),
        ("a: true", #"{"a":true}"#),
        ("a: no", #"{"a":"no"}"#), ("a: NO", #"{"a":"NO"}"#), ("a: on", #"{"a":"on"}"#), ("a: 1.10", #"{"a":1.10}"#),
        ("a: 0x10", #"{"a":"0x10"}"#), ("a: 012", #"{"a":"012"}"#), ("a: 1_000", #"{"a":"1_000"}"#),
        ("a: .inf", #"{"a":".inf"}"#), ("a: ~", #"{"a":null}"#), ("a:", #"{"a":null}"#), ("a: ''", #"{"a":""}"#),
        ("a: 2026-11-21", #"{"a":"2026-11-21"}"#), ("- 1\n- [2, {b: c}]", #"[1,[2,{"b":"c"}]]"#),
        ("a: |\n  two\n  lines\n", #"{"a":"two\nlines\n"}"#), ("1: x", #"{"1":"x"}"#), ("a: ünï", #"{"a":"ünï"}"#),
        ("a: R&D *x", #"{"a":"R&D *x"}"#),
        ("a: '&x *x'\nb: x?a=1&b=2", #"{"a":"&x *x","b":"x?a=1&b=2"}"#), ("a: |\n  &x\n  *x\n", #"{"a":"&x\n*x\n"}"#),
        ("# comment\na: b # more\n", #"{"a":"b"}"#), ("{\"a\": [1]}", #"{"a":[1]}"#),
    ])
    func scalarsAreWhatJSONWouldCallThem(text: String, expected: String) throws {
        #expect(try Self.parse(text) == expected)
    }

    @Test(arguments: [
        "", "a: b: c", "a: [1", "\"", "a: &x 1\nb: *x", "a: 1\na: 2", "? [a]\n: b", "a: \u{1}", "\t- a: b\n  - c",
    ])
    func whatIsNoYAMLSaysSo(text: String) {
        let error = #expect(throws: InvalidValue.self) { try Self.parse(text) }
        #expect(error?.description.isEmpty == false)
    }

    @Test(arguments: ["\ta: 1\n", "a:\n\tb: 1\n"]) func aTabIsCalledATab(text: String) {
        let error = #expect(throws: InvalidValue.self) { try Self.parse(text) }
        #expect(error?.description.contains("a tab") == true, "\(error?.description ?? "")")
    }

    @Test func aBombOfAliasesIsRefusedBeforeItIsParsed() {
        var lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"]
        for level in 1...30 {
            lines.append(
                "a\(level): &a\(level) [" + Array(repeating: "*a\(level - 1)", count: 9).joined(separator: ",") + "]")
        }
        lines.append("? *a30\n: x")
        #expect(throws: InvalidValue.self) { try Self.parse(lines.joined(separator: "\n")) }
    }

    @Test(arguments: ["[", "{a: ", "- ", "? ", "{", "[{"])
    func deepNestingIsRefusedBeforeTheStackIsAtRisk(opening: String) {
        #expect(throws: InvalidValue.self) { try Self.parse(String(repeating: opening, count: 200_000)) }
    }

    @Test func deepIndentationIsRefused() {
        let text = (0..<3000).map { String(repeating: " ", count: $0) + "a:" }.joined(separator: "\n")
        #expect(throws: InvalidValue.self) { try Self.parse(text) }
        let modest = (0..<70).map { String(repeating: " ", count: $0) + "a:" }.joined(separator: "\n")
        #expect(throws: InvalidValue.self) { try Self.parse(modest) }
    }

    /// 8 MiB of these took 9 s and 0.7 GB. The budget ends it after a fraction of the text.
    @Test(.timeLimit(.minutes(5)), arguments: ["-\n", "[a,", "a,", "? a\n", "- {}\n"])
    func moreNodesThanAnyTemplateAreRefusedBeforeATreeIsBuilt(piece: String) throws {
        let opening = piece == "a," ? "[" : ""
        let text = opening + String(repeating: piece, count: (8 << 20) / piece.utf8.count - 1)
        let problem = #expect(throws: InvalidValue.self) { try Self.parse(text) }
        let reason = problem.map { "\($0)" } ?? ""
        #expect(reason.contains("more than any template") || reason.contains("nested deeper"), "\(reason)")
    }

    @Test func aLongTextIsOneNode() throws {
        let text = String(repeating: "one, two: three - ", count: 1 << 16)
        #expect(try Self.parse("a: '\(text)'").utf8.count > 1 << 20)
        #expect(throws: InvalidValue.self) { try Self.parse("a: '\(String(repeating: text, count: 8))'") }
    }

    @Test func bytesThatAreNotUTF8AreRefused() {
        #expect(throws: InvalidValue.self) { try YAMLContent.parse([0x61, 0x3A, 0x20, 0xFF]) }
    }
}
