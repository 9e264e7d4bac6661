import StalecastWire
import Testing

@Suite struct VersionNumberTests {
    @Test(
        arguments: [
            ("0", 0), ("1", 1), ("9007199254740992", 9_007_199_254_740_992), ("9007199254740993", nil),
            ("9223372036854775807", nil), ("9223372036854775808", nil), ("-1", nil), ("", nil), ("1.0", nil),
            ("x", nil),
        ] as [(String, Int64?)])
    func onlyNumbersUpToTwoToThe53AreVersions(text: String, expected: Int64?) {
        #expect(VersionNumber(text)?.rawValue == expected)
        #expect(JSONValue.string(text).versionNumber?.rawValue == expected)
    }

    @Test func theHighestHasNoNext() {
        #expect(VersionNumber.max.next == nil)
        #expect(VersionNumber(9).next == 10)
    }

    @Test(arguments: [Int64.min, -1, 0, 1, .max])
    func arithmeticStaysInRange(_ steps: Int64) {
        for number in [0, 1, VersionNumber.max] {
            let bounds = VersionNumber(0)...VersionNumber.max
            #expect(bounds.contains(number + Int(steps)) && bounds.contains(number - Int(steps)))
            #expect(bounds.contains(VersionNumber(clamping: steps)))
        }
        #expect(VersionNumber.max - VersionNumber(0) == 1 << 53)
        #expect(VersionNumber(7) - 1 == 6)
    }
}
