import Foundation
import StalecastDaemon
import Testing
import Yams

@Suite struct ConfigurationReferenceTests {
    private static let samplePath = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("samples/stalecast.yaml").path

    private static func sample() throws -> String { try String(contentsOfFile: samplePath, encoding: .utf8) }

    /// The sample with every commented default made effective: `#key: value` loses its `#`, prose (`# `) stays.
    private static func uncommented() throws -> String {
        try sample().split(separator: "\n", omittingEmptySubsequences: false).map { line in
            let text = line.drop { $0 == " " }
            guard text.hasPrefix("#"), text.dropFirst().first?.isLetter == true else { return String(line) }
            return String(line.prefix { $0 == " " } + text.dropFirst())
        }.joined(separator: "\n")
    }

    @Test func theSampleIsTheReferenceText() throws {
        let hint = "write it again with: stalecast check-config --explain > samples/stalecast.yaml"
        #expect(try Self.sample() == ConfigurationReference.text, Comment(rawValue: hint))
    }

    @Test func theSampleLoadsAsTheDefaults() throws {
        #expect(try ConfigurationLoader.load(path: Self.samplePath, environment: [:]) == Configuration())
    }

    @Test func theSampleMentionsEveryOptionWithItsDefault() throws {
        let text = try Self.uncommented()
        #expect(try load(text) == Configuration())
        let root = try #require(try Yams.compose(yaml: text))
        for option in ConfigurationOption.all {
            let node = option.path.split(separator: ".").reduce(root as Node?) { $0?[String($1)] }
            #expect(node != nil, "\(option.path) is missing")
        }
    }

    @Test func theDefaultsOfTheSampleAreReallyRead() throws {
        let text = try Self.uncommented().replacingOccurrences(of: "heartbeat: 25s", with: "heartbeat: 26s")
        #expect(try load(text).liveChanges(from: Configuration()) == ["edge.heartbeat"])
    }

    @Test func everyOptionIsExplained() {
        for option in ConfigurationOption.all {
            #expect(option.meaning.hasSuffix(".") && option.meaning.count > 15, "\(option.path)")
            #expect(ConfigurationReference.text.contains("#\(option.name): \(option.defaultText)\n"), "\(option.path)")
            if let variable = option.variable { #expect(ConfigurationReference.text.contains(variable)) }
            if let flag = option.flag { #expect(ConfigurationReference.text.contains(flag)) }
        }
        #expect(ConfigurationReference.text.split(separator: "\n").allSatisfy { $0.count <= 120 })
    }
}
