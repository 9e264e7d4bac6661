import StalecastTestSupport
import StalecastWire
import Testing

/// Tests that what both ends read takes time in proportion to its length.
@Suite struct DoublingTests {
    // MARK: The measure itself

    // Steps are counted, not time: on a busy machine the smallest input sometimes looks too slow for the largest to stand
    // out.
    @Test func quadraticWorkIsFound() {
        var steps: UInt64 = 0
        #expect(throws: NotLinear.self) {
            try expectLinear(upTo: 4096, { UInt64($0) }) { size in
                steps += size * size
            } clock: {
                steps
            }
        }
    }

    /// Measures a parser that is linear but for a small part.
    @Test func quadraticWorkBesideLinearWorkIsFound() {
        var steps: UInt64 = 0
        #expect(throws: NotLinear.self) {
            try expectLinear(upTo: 1 << 17, { UInt64($0) }) { size in
                steps += size + size * size >> 14
            } clock: {
                steps
            }
        }
    }

    @Test func linearWorkPasses() throws {
        try expectLinear(upTo: 4096, { $0 }) { size in
            var names: Set<Int> = []
            for name in 0..<size { names.insert(name) }
            #expect(names.count == size)
        }
    }

    // MARK: JSON

    private static let json = [
        GrowingText(#""k#":1,"#, after: "{", before: #""":0}"#), GrowingText(#""k_#_":"v","#, after: "{"),
        GrowingText("[", before: ""), GrowingText("1,", after: "[", before: "1]"),
        GrowingText("{\"a\":[", before: ""), GrowingText("[[[]]],", after: "[", before: "0]"),
        GrowingText(#"\u00e9\n"#, after: "\"", before: "\""), GrowingText("é", after: "\"", before: "\""),
        GrowingText(#"\ud800"#, after: "\"", before: "\""), GrowingText("9", before: ""),
        GrowingText("0", after: "1.", before: "e5"), GrowingText(" \n"), GrowingText("\n", after: "[1", before: "x"),
        // Canonical order of marks is a matter of sorting.
        GrowingText("\u{315}\u{300}", after: #"{"a"#, before: #"":1}"#),
        GrowingText("\"a#\u{300}\u{323}\":1,", after: "{", before: #""":0}"#),
        GrowingText("👩‍👩‍👧", after: "\"", before: "\""), GrowingText("🇩🇪", after: "\"", before: "\""),
    ]

    @Test(arguments: json) func readingJSONIsLinear(document: GrowingText) throws {
        try expectLinear(upTo: 1 << 17, document.bytes) { _ = try JSONValue.parse($0) }
    }

    @Test(arguments: [JSONStyle.wire, .pretty, JSONStyle(asciiOnly: false, sortedKeys: true)])
    func writingJSONIsLinear(style: JSONStyle) throws {
        for document in [GrowingText(#""k#":[1,"é"],"#, after: "{", before: #""":0}"#), Self.json[13]] {
            try expectLinear(upTo: 1 << 16, { try? JSONValue.parse(document.bytes($0)) }) { _ = $0?.encoded(style) }
        }
    }

    // MARK: Names and expressions

    @Test func readingNamesIsLinear() throws {
        for text in [
            GrowingText("a"), GrowingText("é"), GrowingText("*"), GrowingText("9", after: "1"), GrowingText("."),
        ] {
            try expectLinear(upTo: 1 << 16, text.text) { _ = try TopicName($0) }
            try expectLinear(upTo: 1 << 16, text.text) { _ = try Namespace($0) }
            try expectLinear(upTo: 1 << 16, text.text) { _ = try ProjectID($0) }
            try expectLinear(upTo: 1 << 16, text.text) { _ = try KeyPattern($0) }
            try expectLinear(upTo: 1 << 16, text.text) { _ = VersionNumber($0) }
            try expectLinear(upTo: 1 << 16, text.text) { _ = Timestamp($0) }
        }
    }

    @Test(arguments: ["abcdefghijklmnopqrstuvwxyz.", "a", ".", ""]) func readingACursorIsLinear(head: String) throws {
        for piece in ["1", "a", ".", "é"] {
            try expectLinear(upTo: 1 << 16, GrowingText(piece, after: head).text) { _ = Cursor($0) }
        }
    }

    @Test(arguments: [
        GrowingText("!", before: "'a' in topics"), GrowingText("("), GrowingText("'a' in topics && "),
        GrowingText("'a' in topics || ", after: "("), GrowingText(" "), GrowingText("a", after: "'"),
        GrowingText("é", after: "'"), GrowingText("!(", before: ""),
        GrowingText("\n", after: "'a' in topics", before: "x"),
    ])
    func readingATopicConditionIsLinear(condition: GrowingText) throws {
        try expectLinear(upTo: TopicCondition.maxBytes, condition.text) { _ = try TopicCondition(parsing: $0) }
        try expectLinear(upTo: 1 << 16, condition.text) { _ = try TopicCondition(parsing: $0) }
    }

    /// The operator writes the pattern, and a publisher the name.
    @Test func matchingANameIsLinear() throws {
        let pattern = try KeyPattern("*a*a*a*b")
        try expectLinear(upTo: 1 << 16, GrowingText("a").text) { _ = pattern.matches($0) }
    }

    // MARK: Streams

    @Test(arguments: [
        GrowingText("data: x\n"), GrowingText("data:\n\n"), GrowingText(":\n"), GrowingText("x", after: "data: "),
        GrowingText("id: #\n"), GrowingText("retry: #\n"), GrowingText("\r"), GrowingText("é", after: "event: "),
        GrowingText("data: #\n\n", after: "\u{FEFF}"),
    ])
    func readingAnEventStreamIsLinear(stream: GrowingText) throws {
        try expectLinear(upTo: 1 << 16, stream.bytes) { bytes in
            var parser = SSEParser(maxBytes: 1 << 20)
            _ = try parser.receive(bytes)
        }
        try expectLinear(upTo: 1 << 14, stream.bytes) { bytes in
            var parser = SSEParser(maxBytes: 1 << 20)
            for byte in bytes { _ = try parser.receive(CollectionOfOne(byte)) }
        }
    }
}
