import StalecastWire

/// Recursive descent without recursion: the language has no nesting. One token of look-ahead.
struct ExpressionParser {
    typealias Test = ConditionExpression.Test
    typealias ValueTest = ConditionExpression.ValueTest

    let kind: TemplateKind
    private var lexer: ExpressionLexer
    private(set) var token: ExpressionLexer.Token
    /// Instructions of all regular expressions so far.
    var patternSize = 0
    /// End of the token before `token`.
    private var previousEnd = 0

    init(_ text: String, kind: TemplateKind) throws(ExpressionError) {
        self.kind = kind
        lexer = ExpressionLexer(text)
        token = try lexer.next()
    }

    mutating func expression() throws(ExpressionError) -> [Test] {
        var tests: [Test] = []
        repeat {
            if tests.count == ConditionExpression.maxTests {
                throw error("a condition has at most \(ConditionExpression.maxTests) elements")
            }
            tests.append(try test())
        } while try skipConjunction()
        return tests
    }

    private mutating func skipConjunction() throws(ExpressionError) -> Bool {
        switch token.kind {
        case .end: return false
        case .or: throw error("Expected exactly one term in OR condition here")
        case .and: break
        default: throw expected("'&&' or the end")
        }
        let start = token.start
        let end = lexer.index
        // A token that starts where the one before ended has no blank before it.
        guard start > previousEnd, end < lexer.bytes.count, ExpressionLexer.isBlank(lexer.bytes[end]) else {
            throw error("'&&' needs a blank on both sides")
        }
        try advance()
        return true
    }

    private mutating func test() throws(ExpressionError) -> Test {
        let start = token.start
        switch token.kind {
        case .not: throw error("NOT condition is not allowed here")
        case .punctuation("("): throw error("Parentheses around conditions are not allowed here")
        case .or: throw error("Expected exactly one term in OR condition here")
        case .word(let word): return try test(word, start)
        default: throw expected("an element such as app.version, device.country or percent")
        }
    }

    /// Keywords are known in any case, names of elements only as they are spelled.
    private mutating func test(_ word: String, _ start: Int) throws(ExpressionError) -> Test {
        try advance()
        switch word.lowercased() {
        case "true": return .constant(true)
        case "false": return .constant(false)
        case "percent": return try percentTest()
        case "datetime":
            try checkClient("dateTime", start)
            return try dateTimeTest()
        default: break
        }
        switch word {
        case "version": return try customSignalVersionTest()
        case "app", "device":
            try skip(".")
            return try elementTest("\(word).\(try takeWord("the name of an element"))", start)
        case "firebaseInstallationId": return try elementTest("app.\(word)", start)
        default: throw error("'\(word.shown)' is not an element", at: start)
        }
    }

    /// Refuses `element` in a server template.
    func checkClient(_ element: String, _ start: Int) throws(ExpressionError) {
        guard kind == .server else { return }
        let allowed = "only percent and app.customSignal are"
        throw error("'\(element)' is not allowed in a server template, \(allowed)", at: start)
    }
}

extension ExpressionParser {
    mutating func advance() throws(ExpressionError) {
        previousEnd = lexer.index
        token = try lexer.next()
    }

    /// Takes `punctuation`, which must be next.
    mutating func skip(_ punctuation: Unicode.Scalar) throws(ExpressionError) {
        guard token.kind == .punctuation(punctuation) else { throw expected("'\(punctuation)'") }
        try advance()
    }

    /// Takes `punctuation` when it is next.
    mutating func skipIf(_ punctuation: Unicode.Scalar) throws(ExpressionError) -> Bool {
        guard token.kind == .punctuation(punctuation) else { return false }
        try advance()
        return true
    }

    mutating func takeWord(_ what: String) throws(ExpressionError) -> String {
        guard case .word(let word) = token.kind else { throw expected(what) }
        try advance()
        return word
    }

    /// Takes the word `keyword`, in any case.
    mutating func skipKeyword(_ keyword: String) throws(ExpressionError) {
        guard case .word(let word) = token.kind, word.lowercased() == keyword.lowercased() else {
            throw expected("'\(keyword)'")
        }
        try advance()
    }

    /// Takes a quoted text that `check` has no complaint about; `what` names it in messages.
    mutating func takeText<Value>(
        _ what: String, _ make: (String) -> Value?
    ) throws(ExpressionError) -> Value {
        guard case .text(let text) = token.kind, let value = make(text) else { throw expected(what) }
        try advance()
        return value
    }

    mutating func takeNumber<Value>(
        _ what: String, _ make: (String) -> Value?
    ) throws(ExpressionError) -> Value {
        guard case .number(let text) = token.kind, let value = make(text) else { throw expected(what) }
        try advance()
        return value
    }

    /// Takes one of `allowed`.
    mutating func takeComparison(
        _ allowed: [ConditionExpression.Comparison] = ConditionExpression.Comparison.allCases
    ) throws(ExpressionError) -> ConditionExpression.Comparison {
        guard case .comparison(let comparison) = token.kind, allowed.contains(comparison) else {
            throw expected(allowed.map { "'\($0.rawValue)'" }.joined(separator: " or "))
        }
        try advance()
        return comparison
    }

    /// Takes `['…', '…']` with at most `limit` texts, each of which `make` accepts.
    mutating func takeList<Value>(
        of what: String, limit: Int, _ make: (String) -> Value?
    ) throws(ExpressionError) -> [Value] {
        var values: [Value] = []
        try skip("[")
        repeat {
            if values.count == limit { throw error("a list has at most \(limit) values here") }
            values.append(try takeText(what, make))
        } while try skipIf(",")
        try skip("]")
        return values
    }

    func expected(_ what: String) -> ExpressionError { error("\(what) is expected, not \(token.shown)") }

    func error(_ reason: String, at byte: Int? = nil) -> ExpressionError {
        lexer.error(reason, at: byte ?? token.start)
    }
}
