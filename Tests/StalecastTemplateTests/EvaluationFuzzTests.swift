import StalecastTemplate
import StalecastWire
import StalecastTestSupport
import Testing

/// Tests that no template and request crash, and that no evaluation takes more steps than its budget has.
@Suite struct EvaluationFuzzTests {
    private static let pieces = [
        "a", "é", ".", "*", "+", "?", "{2}", "{0,9}", "{1000}", "(", ")", "(?:", "(?i)", "|", "[", "]", "[^", "-", "^",
        "$",
        "\\d", "\\W", "\\b", "\\pL", "\\p{Lu}", "\\x41", "\\Q", "\\E", "[:alpha:]", "\\", "1", "😀", "(?s:.*)*",
    ]

    @Test func randomPatternsNeverCrashAndKeepTheBudget() {
        var random = SeededRandom(seed: 3)
        var accepted = 0
        let text = String(repeating: "aé1😀A-", count: 160)
        let patterns = inputs(6000)
        for _ in 0..<patterns {
            let count = Int.random(in: 0...10, using: &random)
            let pattern = (0..<count).map { _ in Self.pieces.randomElement(using: &random) ?? "" }.joined()
            let expression = "app.userProperty['a'].matches(['\(pattern)'])"
            guard (try? ConditionExpression(parsing: expression, kind: .client)) != nil else { continue }
            accepted += 1
            let compiled = CompiledTemplate(Template.make([:], conditions: ["c": expression]))
            for text in ["", "a", text] {
                let context = EvaluationContext(analyticsUserProperties: ["a": text])
                #expect(compiled.explain(context).steps <= mostSteps, "\(pattern)")
            }
        }
        #expect(accepted > patterns / 12)
    }

    @Test func hostileTemplatesAndContextsStayWithinTheLimit() throws {
        let long = String(repeating: "a", count: 60_000)
        let expressions: [(Int) -> String] = [
            { "app.userProperty['a'].contains(['\(String(repeating: "a", count: 200))b\($0)'])" },
            { "percent('s\($0)') <= 0" },
            { "dateTime > dateTime('2026-03-29T02:\(10 + $0 % 50):\(10 + $0 / 50)')" },
            { "app.userProperty['p\($0)'] > 1" }, { "app.customSignal['a'].matches(['(a|b\($0))*c'])" },
            { "app.userProperty['a'].exactlyMatches(['\($0)'])" },
        ]
        for make in expressions {
            func compiled(_ count: Int) -> CompiledTemplate {
                let conditions = (0..<count).map { TemplateCondition(name: "c\($0)", expression: make($0)) }
                let all = Dictionary(uniqueKeysWithValues: conditions.map { ($0.name, ParameterValue.value("x")) })
                return CompiledTemplate(
                    Template(conditions: conditions, parameters: ["p": TemplateParameter(conditionalValues: all)]))
            }
            let context = EvaluationContext(
                appInstanceID: long, timeZone: "Europe/Paris", analyticsUserProperties: ["a": long],
                customSignals: ["a": String(long.prefix(1000))],
                now: Timestamp("2026-03-29T01:00:00Z") ?? .now())
            #expect(compiled(2000).explain(context).steps <= mostSteps, "\(make(0).prefix(60))")
            // What the budget does not count.
            try expectLinear(upTo: 2000, compiled) { _ = $0.outcome(for: context) }
        }
    }
}
