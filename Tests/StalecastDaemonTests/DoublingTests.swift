import StalecastTestSupport
import Testing

/// A configuration is the operator's, yet may be made by a program from what others say.
@Suite struct DoublingTests {
    private static let texts = [
        GrowingText("k#: 1\n"), GrowingText("edge: {listen: 127.0.0.1:0}\n"), GrowingText("a", before: ": 1"),
        GrowingText("  - {name: t#, scopes: [demo/firebase]}\n", after: "topics:\n"),
        GrowingText("  - {name: t, scopes: [demo/firebase]}\n", after: "topics:\n"),
        GrowingText("demo/firebase, ", after: "topics: [{name: t, scopes: [", before: "a/b]}]"),
        GrowingText("a_#*, ", after: "topics: [{name: t, keys: [", before: "b]}]"),
        GrowingText("  - {id: p#, number: 1#}\n", after: "projects:\n"),
        GrowingText("  - {id: p, number: 1}\n", after: "projects:\n"),
        GrowingText("https://h#.example, ", after: "edge: {allowedOrigins: [", before: "https://a.example]}"),
        GrowingText("h#.example, ", after: "edge: {hosts: [", before: "a.example]}"),
        GrowingText("key-#, ", after: "edge: {apiKeys: [", before: "abc]}"),
        GrowingText("10.#.0.0/16, ", after: "webhooks: {allowedAddresses: [", before: "10.0.0.0/8]}"),
        GrowingText(
            "  - {name: r#, url: \"https://h/\", secretFiles: [/nowhere]}\n", after: "webhooks:\n  receivers:\n"),
        GrowingText("  - {scope: demo/ns#, kind: file, path: /tmp/x#}\n", after: "sources:\n"), GrowingText("# x\n"),
        GrowingText("9", after: "edge: {heartbeat: ", before: "s}"),
        GrowingText("x", after: "edge: {listen: ", before: ":1}"),
        GrowingText("é", after: "data: "), GrowingText("\u{2028}"), GrowingText("- a\n"),
    ]

    @Test(arguments: texts) func readingAConfigurationIsLinear(text: GrowingText) throws {
        try expectLinear(upTo: isLongRun ? 1 << 15 : 1 << 13, text.text) { _ = try load($0) }
    }

    @Test func readingTheEnvironmentIsLinear() throws {
        try expectLinear(upTo: 2048) { count in
            Dictionary(uniqueKeysWithValues: (0..<count).map { ("STALECAST_UNKNOWN_\($0)", "x") })
        } _: {
            _ = try load("", environment: $0)
        }
    }
}
