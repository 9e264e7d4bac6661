import StalecastTemplate
import StalecastWire
import Testing

@Suite struct EvaluationPatternTests {
    private func isFound(_ pattern: String, in text: String) -> Bool {
        let expression = "app.userProperty['a'].matches(['\(pattern)'])"
        return isTrue(expression, EvaluationContext(analyticsUserProperties: ["a": text]))
    }

    @Test(arguments: [
        ("", "", true), ("", "x", true), ("abc", "xabcx", true), ("abc", "ab", false), ("^abc", "xabc", false),
        ("abc$", "abcx", false), ("abc$", "abc\n", false), ("(?m)abc$", "abc\nx", true), ("(?m)^b", "a\nb", true),
        ("^b", "a\nb", false), ("\\Ab", "a\nb", false), ("(?m)\\Ab", "a\nb", false), ("a\\z", "ba", true),
        ("a.c", "abc", true), ("a.c", "a\nc", false), ("(?s)a.c", "a\nc", true), ("a\\.c", "abc", false),
        ("a|b|", "c", true), ("^(a|b)$", "b", true), ("^(?:a|b)+$", "abba", true), ("^(?P<n>a)(?<m>b)$", "ab", true),
        ("^a*$", "", true), ("^a+$", "", false), ("^a?b$", "b", true), ("^a{2,3}$", "a", false),
        ("^a{2,3}$", "aaa", true), ("^a{2,3}$", "aaaa", false), ("^a{2}$", "aa", true), ("^a{2,}$", "aaaaa", true),
        ("^a{0}$", "", true), ("^a{,2}$", "a{,2}", true), ("x{", "x{", true), ("^a*?b+?c??$", "aabb", true),
        ("^(a*)*$", "aaab", false), ("^(a|aa)+$", "aaaa", true), ("^(|a)+$", "aa", true), ("[abc]", "xb", true),
        ("^[^abc]$", "b", false), ("^[^abc]$", "d", true), ("^[a-cx-z]+$", "abxz", true), ("^[]a]+$", "]a", true),
        ("^[^]]$", "]", false), ("^[a-]+$", "a-", true), ("^[\\d\\-x]+$", "1-x", true),
        ("^[[:alpha:]_]+$", "aZ_", true),
        ("^[[:^digit:]]$", "1", false), ("^\\d\\D\\w\\W\\s\\S$", "1aa- x", true), ("^[\\D]$", "5", false),
        ("^[^\\d]$", "a", true), ("\\bfoo\\b", "a foo b", true), ("\\bfoo\\b", "afoo", false), ("o\\Bo", "foo", true),
        ("(?i)STRASSE", "strasse", true), ("(?i)k", "\u{212A}", true), ("(?i)[a-c]", "B", true),
        ("(?i)[^a]", "A", false), ("(?i:a)b", "AB", false), ("(?i)a(?-i)b", "Ab", true), ("(a(?i)b)c", "aBC", false),
        ("(?i)é", "É", true), ("^\\x41\\x{1F600}\\103?\\t$", "A😀\t", false), ("^\\x41\\x{1F600}\\011$", "A😀\t", true),
        ("^\\pL+$", "été", true), ("^\\p{Lu}\\P{Lu}$", "Éé", true), ("^\\p{^N}$", "5", false), ("^.$", "😀", true),
        ("^\\Qa.b\\E+$", "a.bbb", true), ("^\\Qa.b\\E$", "axb", false), ("\\Q\\E", "", true), ("a\\_b", "a_b", true),
        ("^\\.\\*\\[\\]\\(\\)\\{\\}\\^\\$\\|\\?\\+\\/$", ".*[](){}^$|?+/", true), ("^\\v$", "\u{B}", true),
        ("^\\s$", "\u{B}", false), ("(?U)a+", "a", true), ("^(?:(?:a{2}){2}){2}$", "aaaaaaaa", true),
    ])
    func patternIsThatOfRE2(pattern: String, text: String, expected: Bool) {
        #expect(isFound(pattern, in: text) == expected, "\(pattern) in \(text)")
    }

    @Test(arguments: [
        ("(", "not closed"), (")", "without its '('"), ("[a", "not closed"), ("*a", "nothing '*'"), ("a**", "repeated"),
        ("a{2}{3}", "repeated"), ("a{1001}", "more than 1000"), ("a{3,2}", "below"), ("(?=a)", "look-ahead"),
        ("(?!a)", "look-ahead"), ("(?<=a)", "look-behind"), ("(?<!a)", "look-behind"), ("(a)\\1", "backreferences"),
        ("\\Z", "not supported"), ("\\C", "not supported"), ("\\p{Greek}", "general categories"),
        ("[b-a]", "backwards"),
        ("(?x)a", "not supported"), ("\\x{110000}", "hexadecimal"), ("[[:foo:]]", "class"),
        ("(?P<n", "not complete"), ("(?P>n)", "not supported"), ("((a{100}){100}){100}", "too large"),
        ("((((){1000}){1000}){1000}){1000}", "too large"),
        ("(?i", "closed"),
        ("{2}", "nothing '{'"), ("a++", "repeated"), (String(repeating: "(", count: 60), "nested deeper"),
    ])
    func whatRE2RefusesIsRefusedWithTheTemplate(pattern: String, reason: String) throws {
        let expression = "app.version.matches(['x', '\(pattern)'])"
        let error = try #require(throws: ExpressionError.self) {
            try ConditionExpression(parsing: expression, kind: .client)
        }
        #expect(error.reason.contains(reason), "\(error)")
        #expect(error.reason.contains("the regular expression"), "\(error)")
    }

    @Test func manyLargePatternsAreRefusedTogether() throws {
        let condition = "app.version.matches([" + Array(repeating: "'.{600}'", count: 10).joined(separator: ",") + "])"
        #expect(throws: ExpressionError.self) { try ConditionExpression(parsing: condition, kind: .client) }
        let fitting = "app.version.matches(['.{900}', '.{900}'])"
        let conditions = (0..<120).map { TemplateCondition(name: "c\($0)", expression: fitting) }
        let problems = #expect(throws: TemplateProblems.self) {
            try Template(validating: Template(conditions: conditions).json, kind: .client)
        }
        #expect(problems?.message.contains("too large together") == true)
    }

    @Test(arguments: [
        "(a*)*b", "(a|a)*b", "(a|aa)+$b", "(.*)*x", "(.*.*.*)*x", "(a?){500}a{500}b", "([a-z]+)*[0-9]", "(?i)(É|é)*x",
        ".{0,400}.{0,400}b", "(\\pL*\\pN*)*x",
    ])
    func hostilePatternKeepsTheBudget(pattern: String) {
        let template = Template(
            conditions: (0..<50).map {
                TemplateCondition(name: "c\($0)", expression: "app.userProperty['p\($0)'].matches(['\(pattern)'])")
            },
            parameters: ["p": TemplateParameter(conditionalValues: ["c0": .value("x")], valueType: nil)])
        let names = (0..<50).map { "p\($0)" }
        let compiled = CompiledTemplate(template)
        for letter in ["a", "é"] {
            let text = String(repeating: letter, count: 1000)
            let properties = Dictionary(uniqueKeysWithValues: names.map { ($0, text) })
            let context = EvaluationContext(analyticsUserProperties: properties)
            let explanation = compiled.explain(context)
            #expect(explanation.steps > 1000 && explanation.steps <= mostSteps)
            #expect(explanation.conditions.allSatisfy { !$0.isMatched && $0.problem == nil })
        }
    }

    /// Measuring each level anew took 2 to the depth: at 45 weeks, at 50 years.
    @Test(
        .timeLimit(.minutes(5)),
        arguments: [("*", true), ("+", false), ("?", true), ("{2}", false), ("{0,1000}", false), ("*|b", true)])
    func repetitionsFiftyDeepAreMeasuredInNoTime(repetition: String, isAccepted: Bool) {
        let pattern = String(repeating: "(", count: 50) + "a" + String(repeating: ")\(repetition)", count: 50)
        let expression = "app.version.matches(['\(pattern)'])"
        if isAccepted {
            #expect(throws: Never.self) { try ConditionExpression(parsing: expression, kind: .client) }
        } else {
            let error = #expect(throws: ExpressionError.self) {
                try ConditionExpression(parsing: expression, kind: .client)
            }
            #expect(error?.reason.contains("too large") == true)
        }
    }

    @Test func aTextTooLongForPatternsMatchesNone() {
        let context = EvaluationContext(analyticsUserProperties: ["a": String(repeating: "a", count: 1001)])
        #expect(!isTrue("app.userProperty['a'].matches(['a'])", context))
        #expect(isTrue("app.userProperty['a'].contains(['a'])", context))
    }
}

/// Steps an evaluation may take: the budget, and those of the last scalar, at most one for each instruction of a pattern.
let mostSteps = 250_000 + 4000
