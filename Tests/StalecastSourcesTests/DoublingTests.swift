import StalecastSources
import StalecastTestSupport
import StalecastWire
import Testing

/// Tests that what origins serve, and what strangers post to `triggers`, costs in proportion to its length.
@Suite struct DoublingTests {
    @Test(arguments: [
        GrowingText("-\n"), GrowingText("a,", after: "[", before: "a]"), GrowingText("k#: v\n"),
        GrowingText("? a#\n: b\n"),
        GrowingText("- {a#: b}\n"), GrowingText("x", after: "a: "), GrowingText("x ", after: "a: '", before: "'"),
        GrowingText("\\x41", after: "a: \"", before: "\""), GrowingText("  x\n", after: "a: |\n"),
        GrowingText("\n", after: "a: '", before: "'"),
        GrowingText("# x\n"), GrowingText("---\n"), GrowingText("["), GrowingText("{a: "),
        GrowingText("é", before: ": 1"),
        GrowingText("!", before: " a"), GrowingText("&a#", before: " b"), GrowingText("- 1#\n"),
        GrowingText("%YAML 1.1\n"),
        GrowingText("\u{315}\u{300}", after: "a", before: ": 1"), GrowingText("-", before: "\n"), GrowingText("k: v\n"),
        GrowingText(" ", before: "a: b"), GrowingText("\t"), GrowingText("a #", before: ": 1"),
        GrowingText("\"k\\\n", before: "\": 1"),
    ])
    func readingYAMLIsLinear(document: GrowingText) throws {
        try expectLinear(upTo: 1 << 16, document.bytes) { _ = try YAMLContent.parse($0) }
    }

    @Test func aValueMapIsMadeInLinearTime() throws {
        for document in [
            GrowingText("\"k#\":{\"a\":1},", after: "{", before: "\"z\":0}"),
            GrowingText("{\"a#\":1},", after: "[", before: "{}]"),
            GrowingText("a.", after: "{\"", before: "z\":1}"),
            GrowingText("\"a.b.c#\":1,", after: "{", before: "\"z\":0}"),
        ] {
            try expectLinear(upTo: 1 << 16, { try? JSONValue.parse(document.bytes($0)) }) {
                if let json = $0 { _ = try ValueMap.template(from: json) }
            }
        }
    }

    @Test(arguments: [
        GrowingText("{\"latestTemplateVersionNumber\":\"#\"}\n"), GrowingText("[,]"), GrowingText("{"),
        GrowingText("x", after: "{\"a\":\""), GrowingText("\\\"", after: "{\"a\":\""),
        GrowingText("{\"a\":{}},", after: "["),
        GrowingText("\"a#\":1,", after: "{", before: "\"b\":2}"), GrowingText("}", after: "{"),
    ])
    func readingInvalidationsIsLinear(stream: GrowingText) throws {
        try expectLinear(upTo: 1 << 16, stream.bytes) { bytes in
            var parser = InvalidationParser()
            _ = try parser.receive(bytes)
        }
        try expectLinear(upTo: 1 << 14, stream.bytes) { bytes in
            var parser = InvalidationParser()
            for byte in bytes { _ = try parser.receive(CollectionOfOne(byte)) }
        }
    }

    // MARK: Triggers

    @Test(arguments: [
        GrowingText("{\"specversion\":\"1.0\",\"id\":\"#\"},", after: "[", before: "{}]"), GrowingText("["),
        GrowingText("\"a#\":1,", after: "{", before: "\"b\":2}"),
        GrowingText("x", after: "{\"message\":{\"data\":\"", before: "\"}}"),
        GrowingText("QUFB", after: "{\"message\":{\"data\":\"", before: "\",\"messageId\":\"1\"}}"),
        GrowingText("\"k#\":\"v\",", after: "{\"message\":{\"attributes\":{", before: "\"z\":\"\"}}}"),
    ])
    func readingEventsIsLinear(body: GrowingText) throws {
        for type in [
            "application/json", "application/cloudevents+json", "application/cloudevents-batch+json", "",
        ] {
            try expectLinear(upTo: 1 << 16, body.bytes) {
                _ = try EventReader.events(headers: ["content-type": type], body: $0)
            }
        }
    }

    @Test(arguments: [
        "content-type", "authorization", "webhook-id", "webhook-timestamp", "webhook-signature", "ce-type", "ce-source",
    ])
    func readingATriggersHeadersIsLinear(name: String) throws {
        for piece in ["v1, ", "a", " ", ";", "1", "é", "/", "."] {
            try expectLinear(upTo: 1 << 14, GrowingText(piece).text) { text in
                var headers = ["webhook-id": "a", "webhook-timestamp": "1614265330", "webhook-signature": "v1,a"]
                headers[name] = text
                let now = Timestamp(microseconds: 1_614_265_330_000_000)
                _ = SignedPost(headers: headers, now: now)
                _ = try EventReader.events(headers: headers, body: [])
            }
        }
    }

    @Test func readingAPointerIsLinear() throws {
        for piece in ["/a", "~0", "~", "/0", "é"] {
            try expectLinear(upTo: 1 << 16, GrowingText(piece, after: "/").text) { _ = try JSONPointer($0) }
        }
    }
}
