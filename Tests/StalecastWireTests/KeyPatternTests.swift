import StalecastWire
import StalecastTestSupport
import Testing

@Suite struct KeyPatternTests {
    @Test(arguments: [
        ("pay_*", "pay_limit"), ("pay_*", "pay_"), ("*", "a"), ("*", ""), ("**", "anything"), ("?", "a"),
        ("a?c", "abc"),
        ("*_flag", "new_flag"), ("*a*b*", "xxaxxbxx"), ("a*a*a", "aaa"), ("exact", "exact"), ("?*?", "ab"),
        ("*ab", "aab"),
        ("*aab", "aaaab"), ("a*bc*d", "abcbcd"),
    ])
    func patternFits(glob: String, key: String) throws {
        #expect(try KeyPattern(glob).matches(key))
    }

    @Test(arguments: [
        ("pay_*", "pa"), ("pay_*", "xpay_limit"), ("?", ""), ("?", "ab"), ("a?c", "ac"), ("*_flag", "flag"),
        ("a*a*a", "aa"),
        ("exact", "exactly"), ("exact", "exac"), ("exact", "EXACT"), ("?*?", "a"), ("*ab*", "ba"), ("a", ""),
        ("*b", "bc"),
    ])
    func patternDoesNotFit(glob: String, key: String) throws {
        #expect(try !KeyPattern(glob).matches(key))
    }

    @Test(arguments: ["", "a b", "a-b", "é", "a\0", "a.b", "[a]", "\\*", String(repeating: "a", count: 257)])
    func whatCannotNameAKeyIsRefused(glob: String) {
        #expect(throws: InvalidName.self) { try KeyPattern(glob) }
    }

    /// A backtracking matcher would need longer than the universe has.
    @Test func hostilePatternIsCheap() throws {
        let pattern = try KeyPattern(String(repeating: "a*", count: 127) + "b")
        #expect(!pattern.matches(String(repeating: "a", count: 256)))
    }

    /// Against a plain recursive definition, on random short inputs.
    @Test func matcherAgreesWithTheDefinition() throws {
        var random = SeededRandom(seed: 11)
        var fits = 0
        for _ in 0..<20_000 {
            let glob = text(of: "ab*?", 1...6, &random)
            let key = text(of: "ab", 0...6, &random)
            let expected = Self.fits(Array(glob)[...], Array(key)[...])
            fits += expected ? 1 : 0
            #expect(try KeyPattern(glob).matches(key) == expected, "\(glob) \(key)")
        }
        #expect(fits > 1000)
    }

    private func text(of letters: String, _ lengths: ClosedRange<Int>, _ random: inout SeededRandom) -> String {
        String((0..<Int.random(in: lengths, using: &random)).map { _ in letters.randomElement(using: &random) ?? "a" })
    }

    private static func fits(_ glob: ArraySlice<Character>, _ key: ArraySlice<Character>) -> Bool {
        guard let first = glob.first else { return key.isEmpty }
        if first == "*" { return fits(glob.dropFirst(), key) || !key.isEmpty && fits(glob, key.dropFirst()) }
        guard let letter = key.first, first == "?" || first == letter else { return false }
        return fits(glob.dropFirst(), key.dropFirst())
    }
}
