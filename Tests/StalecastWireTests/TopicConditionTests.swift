import StalecastWire
import StalecastTestSupport
import Testing

@Suite struct TopicConditionTests {
    private func holds(_ condition: String, _ topics: String) throws -> Bool {
        let subscribed = Set(topics.split(separator: " ").map(String.init))
        return try TopicCondition(parsing: condition).holds { subscribed.contains($0.description) }
    }

    @Test(arguments: [
        ("'a' in topics", "a", true), ("'a' in topics", "b", false), ("\"a\" in topics", "a", true),
        ("'a' in topics && ('b' in topics || 'c' in topics)", "a c", true),
        ("'a' in topics && ('b' in topics || 'c' in topics)", "a", false),
        ("'a' in topics && ('b' in topics || 'c' in topics)", "b c", false),
        ("!('a' in topics)", "", true), ("!('a' in topics)", "a", false), ("!!('a' in topics)", "a", true),
        ("! 'a' in topics", "b", true), ("!('a' in topics) || 'b' in topics", "a b", true),
        ("'a'in topics&&'b'in topics", "a b", true), (" ( 'a' in topics ) ", "a", true),
    ])
    func conditionHolds(condition: String, topics: String, expected: Bool) throws {
        #expect(try holds(condition, topics) == expected)
    }

    /// Rejects the usual precedence: the first would be true for `a` alone, and the second false for `a` and `c`.
    @Test func operatorsAreTakenFromLeftToRight() throws {
        #expect(try !holds("'a' in topics || 'b' in topics && 'c' in topics", "a"))
        #expect(try holds("'a' in topics || 'b' in topics && 'c' in topics", "a c"))
        #expect(try holds("'a' in topics && 'b' in topics || 'c' in topics", "c"))
    }

    @Test func topicsAreListedOnceInOrder() throws {
        let condition = try TopicCondition(parsing: "'b' in topics || 'a' in topics && 'b' in topics")
        #expect(condition.topics.map(\.description) == ["b", "a"])
        #expect(condition.description == "'b' in topics || 'a' in topics && 'b' in topics")
    }

    @Test func fiveTopicsAreTheMost() throws {
        let five = (1...5).map { "'t\($0)' in topics" }.joined(separator: " || ")
        #expect(try TopicCondition(parsing: five).topics.count == 5)
        let error = #expect(throws: ExpressionError.self) { try TopicCondition(parsing: five + " || 't6' in topics") }
        #expect(error?.offset == five.count + 4)
    }

    @Test(arguments: [
        ("", 0), ("a", 0), ("'a'", 3), ("'a' in", 4), ("'a' in topic", 4), ("'a' in topicsx", 4), ("'a in topics", 0),
        ("'a' in topics &&", 16), ("'a' in topics 'b' in topics", 14), ("('a' in topics", 14), ("'a' in topics)", 13),
        ("'a b' in topics", 0), ("'' in topics", 0), ("'é' in topics", 0), ("'a' in topics & 'b' in topics", 14),
        ("()", 1),
        ("!", 1), ("'a' in topics || 'é'", 17), ("('ä", 1),
    ])
    func errorHasItsPlace(condition: String, offset: Int) {
        let error = #expect(throws: ExpressionError.self) { try TopicCondition(parsing: condition) }
        #expect(error?.offset == offset)
        #expect(error?.description.hasSuffix("at character \(offset + 1)") == true)
    }

    @Test func hostileNestingAndLengthAreRefused() {
        for hostile in [
            String(repeating: "(", count: 4000), String(repeating: "(", count: 100_000),
            String(repeating: "!", count: 4000),
            String(repeating: "!(", count: 2000), String(repeating: "'a' in topics && ", count: 200),
        ] { #expect(throws: ExpressionError.self) { try TopicCondition(parsing: hostile) } }
    }

    @Test func randomTokensNeverCrash() {
        let tokens = [
            "'a'", "\"b\"", " in ", "topics", "&&", "||", "!", "(", ")", " ", "'", "\u{0}", "é", "'a' in topics",
        ]
        var random = SeededRandom(seed: 3)
        var accepted = 0
        for _ in 0..<30_000 {
            let text = (0..<Int.random(in: 0...9, using: &random)).map { _ in tokens.randomElement(using: &random) ?? ""
            }
            if (try? TopicCondition(parsing: text.joined())) != nil { accepted += 1 }
        }
        #expect(accepted > 100)
    }
}
