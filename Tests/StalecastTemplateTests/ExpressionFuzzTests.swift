import StalecastTemplate
import StalecastWire
import StalecastTestSupport
import Testing

/// Hostile expressions: no text crashes the parser or makes it slow.
@Suite struct ExpressionFuzzTests {
    private static let pieces = [
        "true", "percent", "between", " and ", " && ", "||", "!", "(", ")", "[", "]", "'", "\"", ",", ".", "<=", "==",
        "=", "\\", "app",
        "app.version.>=(['1'])", "device.country in ['US']", "app.userProperty['a']", "dateTime",
        "('2026-01-01T00:00:00')", "10", "-", ".5",
        "\u{0}", "\r\n", "é", "😀", "\u{2028}", " ", "version(app.customSignal['a']) > '1'", "'x'", "in",
    ]

    @Test func randomPiecesNeverCrash() {
        var random = SeededRandom(seed: 1)
        var accepted = 0
        for _ in 0..<30_000 {
            let count = Int.random(in: 0...8, using: &random)
            let text = (0..<count).map { _ in Self.pieces.randomElement(using: &random) ?? "" }.joined()
            for kind in TemplateKind.allCases where check(text, kind) { accepted += 1 }
        }
        #expect(accepted > 100)
    }

    @Test func mutatedExpressionsNeverCrash() {
        var random = SeededRandom(seed: 2)
        var accepted = 0
        for round in 0..<20_000 {
            let source = ConditionExpressionTests.elements[round % ConditionExpressionTests.elements.count].0
            var scalars = Array(source.unicodeScalars)
            for _ in 0...Int(random.next() % 2) {
                let index = Int(random.next() % UInt64(scalars.count))
                switch random.next() % 3 {
                case 0: scalars[index] = Unicode.Scalar(UInt8(truncatingIfNeeded: random.next()))
                case 1 where scalars.count > 1: scalars.remove(at: index)
                default: scalars.insert(scalars[Int(random.next() % UInt64(scalars.count))], at: index)
                }
            }
            var text = String.UnicodeScalarView()
            text.append(contentsOf: scalars)
            if check(String(text), .client) { accepted += 1 }
        }
        #expect(accepted > 1000)
    }

    /// Whether it parses; an error must lie within the text.
    private func check(_ text: String, _ kind: TemplateKind) -> Bool {
        do {
            let tests = try ConditionExpression(parsing: text, kind: kind).tests
            return !tests.isEmpty
        } catch {
            #expect((0...text.unicodeScalars.count).contains(error.offset), "\(text)")
            return false
        }
    }

    static let bombs: [(String, Int)] = [
        ("(", 100_000), ("!", 100_000), ("[", 100_000), ("true && ", 12_500), ("true&&", 16_000), ("'", 99_999),
        ("\\'", 50_000),
        ("a", 100_000), ("9", 100_000), (".", 100_000), ("percent <= ", 9000), ("app.", 25_000), (" ", 100_000),
        ("é", 50_000), ("\u{0}", 100_000),
    ]

    /// Quadratic work on 65 KB would be 4 × 10⁹ steps: minutes in a debug build. Longer texts are refused unread.
    @Test(.timeLimit(.minutes(5)), arguments: bombs)
    func whatIsReadAtAllIsReadAtOnce(piece: String, count: Int) {
        let bomb = String(decoding: String(repeating: piece, count: count).utf8.prefix(65_000), as: UTF8.self)
        for prefix in [
            "", "app.id == '", "app.userProperty['", "percent <= ", "device.country in [", "app.version.contains(['",
        ] {
            for kind in TemplateKind.allCases { _ = check(prefix + bomb, kind) }
        }
    }

    @Test func longListsAndTextsAreLinearToo() throws {
        let long = String(repeating: "x\\'", count: 20_000)
        #expect(try ConditionExpression(parsing: "app.id == '\(long)'", kind: .client).tests.count == 1)
        let list = Array(repeating: "'US'", count: 20_000).joined(separator: ",")
        #expect(throws: ExpressionError.self) {
            try ConditionExpression(parsing: "device.country in [\(list)]", kind: .client)
        }
    }
}
