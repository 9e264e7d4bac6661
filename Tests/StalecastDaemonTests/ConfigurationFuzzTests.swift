import Foundation
import StalecastDaemon
import StalecastTestSupport
import Testing

/// Nothing here expects a particular answer: reaching the end is the assertion, the counts prove that work was done.
@Suite struct ConfigurationFuzzTests {
    private static let pieces = [
        "edge", "control", "projects", "topics", "listen", "poll", "name", "scopes", "demo/firebase", ":", ": ", "- ",
        "\n", "\n  ", "\n    ", "[", "]", "{", "}", ",", "\"", "'", "#", "&a ", "*a", "!!str ", "!", "|", ">", "? ",
        "%",
        "@", "`", "\t", "\r\n", "\u{FEFF}", "\u{2028}", "\u{E000}0-", "25s", "8MiB", "127.0.0.1:0", "~", "---\n",
        "...\n",
        "<<", "\0", "\u{85}", "é", "🦆",
    ]

    @Test(arguments: 1...4) func piecesOfYAMLInAnyOrderNeverCrash(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var refused = 0
        for _ in 0..<(isLongRun ? 3000 : 750) {
            let count = Int.random(in: 0...40, using: &random)
            let text = (0..<count).map { _ in Self.pieces.randomElement(using: &random) ?? "" }.joined()
            refused += problems(text).isEmpty ? 0 : 1
        }
        #expect(refused > 250)
    }

    @Test(arguments: 1...4) func changedSamplesNeverCrash(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let uncommented = ConfigurationReference.text.replacingOccurrences(
            of: "#([a-zA-Z]+:)", with: "$1", options: .regularExpression)
        let sample = Array(uncommented.utf8)
        var refused = 0
        for _ in 0..<(isLongRun ? 150 : 40) {
            var bytes = sample
            for _ in 0..<Int.random(in: 1...8, using: &random) {
                let index = Int.random(in: 0..<bytes.count, using: &random)
                switch UInt8.random(in: 0...2, using: &random) {
                case 0: bytes[index] = UInt8.random(in: 0...255, using: &random)
                case 1: bytes.remove(at: index)
                default: bytes.insert(contentsOf: bytes[index...].prefix(30), at: index)
                }
            }
            refused += problems(String(decoding: bytes, as: UTF8.self)).isEmpty ? 0 : 1
        }
        #expect(refused > 10)
    }

    @Test func randomBytesInAFileNeverCrash() throws {
        var random = SeededRandom(seed: 7)
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID()).yaml")
        defer { try? FileManager.default.removeItem(at: file) }  // nothing depends on it being gone
        for _ in 0..<300 {
            let count = Int.random(in: 0...200, using: &random)
            let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
            try Data(bytes).write(to: file)
            _ = try? ConfigurationLoader.load(path: file.path, environment: [:])  // either answer will do
        }
    }

    @Test(arguments: ["[", "{", "- ", "? ", "{a: ", "[[", "a: {", "\"", "- - ", "!!map {"])
    func deepNestingIsRefused(piece: String) {
        #expect(!problems(String(repeating: piece, count: 100_000)).isEmpty)
    }
}
