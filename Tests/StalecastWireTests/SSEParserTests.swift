import StalecastTestServers
import StalecastWire
import Testing

/// The streams of WPT's eventsource tests, with what its `message.py` appends, and LaunchDarkly's contract.
@Suite struct SSEParserTests {
    struct Vector: CustomTestStringConvertible, Sendable {
        let name: String
        let stream: String
        var data: [String] = []
        var types: [String]?
        var ids: [String]?
        var retries: [Int] = []

        var testDescription: String { name }
    }

    private static let end = "\n\n\n"
    private static let filler = String(repeating: "x", count: 2048)

    static let vectors: [Vector] = [
        Vector(name: "format-bom", stream: "\u{FEFF}data:1\n\n\u{FEFF}data:2\n\ndata:3" + end, data: ["1", "3"]),
        Vector(name: "format-bom-2", stream: "\u{FEFF}\u{FEFF}data:1\n\ndata:2\n\ndata:3" + end, data: ["2", "3"]),
        Vector(
            name: "format-comments",
            stream: "data:1\r:\0\n:\r\ndata:2\n:\(filler)\rdata:3\n:data:fail\r:\(filler)\ndata:4\n" + end,
            data: ["1\n2\n3\n4"]),
        Vector(
            name: "format-data-before-final-empty-line", stream: "retry:1000\ndata:test1\n\nid:test\ndata:test2\n",
            data: ["test1"], ids: [""], retries: [1000]),
        Vector(name: "format-field-data", stream: "data:\n\ndata\ndata\n\ndata:test" + end, data: ["", "\n", "test"]),
        Vector(
            name: "format-field-event", stream: "event:test\ndata:x\n\ndata:x" + end, data: ["x", "x"],
            types: ["test", "message"]),
        Vector(
            name: "format-field-event-empty", stream: "event: \ndata:data" + end, data: ["data"], types: ["message"]),
        Vector(
            name: "format-field-id", stream: "id: …\ndata: hello\n\ndata: again" + end, data: ["hello", "again"],
            ids: ["…", "…"]),
        Vector(
            name: "format-field-id-3 persists", stream: "id: 1\ndata: a\n\ndata: b" + end, data: ["a", "b"],
            ids: ["1", "1"]),
        Vector(
            name: "format-field-id-3 changes", stream: "id: 1\ndata: a\n\nid: 2\ndata: b\n\ndata: c" + end,
            data: ["a", "b", "c"], ids: ["1", "2", "2"]),
        Vector(
            name: "format-field-id-3 resets", stream: "id: 1\ndata: a\n\nid:\ndata: b\n\ndata: c" + end,
            data: ["a", "b", "c"], ids: ["1", "", ""]),
        Vector(
            name: "format-field-id-3 resets bare", stream: "id: 1\ndata: a\n\nid\ndata: b\n\ndata: c" + end,
            data: ["a", "b", "c"], ids: ["1", "", ""]),
        Vector(
            name: "format-field-parsing",
            stream:
                "data:\0\ndata:  2\rData:1\ndata\0:2\ndata:1\r\0data:4\nda-ta:3\rdata_5\ndata:3\rdata:\r\n data:32\n"
                + "data:4\n" + end,
            data: ["\0\n 2\n1\n3\n\n4"]),
        Vector(name: "format-field-retry", stream: "retry:03000\ndata:x" + end, data: ["x"], retries: [3000]),
        Vector(
            name: "format-field-retry-bogus", stream: "retry:3000\nretry:1000x\ndata:x" + end, data: ["x"],
            retries: [3000]),
        Vector(name: "format-field-retry-empty", stream: "retry\ndata:test" + end, data: ["test"]),
        Vector(
            name: "format-field-unknown",
            stream: "data:test\n data\ndata\nfoobar:xxx\njustsometext\n:thisisacommentyay\ndata:test" + end,
            data: ["test\n\ntest"]),
        Vector(
            name: "format-leading-space", stream: "data:\ttest\rdata: \ndata:test" + end, data: ["\ttest\n\ntest"]),
        Vector(name: "format-newlines", stream: "data:test\r\ndata\ndata:test\r\n\r" + end, data: ["test\n\ntest"]),
        Vector(name: "format-null-character", stream: "data:\0\n\n" + end, data: ["\0"]),
        Vector(name: "format-utf-8", stream: "data:ok…" + end, data: ["ok…"]),
        Vector(name: "retry beyond Int64", stream: "retry:9223372036854775808\ndata:x" + end, data: ["x"]),
        Vector(name: "retry with sign", stream: "retry:+5\ndata:x" + end, data: ["x"]),
        Vector(name: "retry in full-width digits", stream: "retry:１\ndata:x" + end, data: ["x"]),
        Vector(name: "carriage return at the very end", stream: "data:x\r\r", data: ["x"]),
        Vector(name: "BOM inside data", stream: "data:a\u{FEFF}b" + end, data: ["a\u{FEFF}b"]),
        Vector(
            name: "two spaces keep one", stream: "event:  greeting\ndata:  Hello" + end, data: [" Hello"],
            types: [" greeting"]),
        Vector(
            name: "reverse order", stream: "data: Hello\nid: 9\nevent: greeting" + end, data: ["Hello"],
            types: ["greeting"], ids: ["9"]),
        Vector(name: "id alone", stream: "id: 7\n\ndata: x" + end, data: ["x"], ids: ["7"]),
    ]

    private func events(_ outputs: [SSEParser.Output]) -> [ServerSentEvent] {
        outputs.compactMap { if case .event(let event) = $0 { event } else { nil } }
    }

    private func parse(_ bytes: [UInt8], chunk: Int) throws -> [SSEParser.Output] {
        var parser = SSEParser()
        var outputs: [SSEParser.Output] = []
        for start in stride(from: 0, to: bytes.count, by: chunk) {
            outputs += try parser.receive(bytes[start..<min(start + chunk, bytes.count)])
        }
        return outputs
    }

    @Test(arguments: vectors, [1, 2, 3, 7, Int.max / 2])
    func eventsAreTheSameHoweverTheStreamIsCut(vector: Vector, chunk: Int) throws {
        let outputs = try parse(Array(vector.stream.utf8), chunk: chunk)
        let events = events(outputs)
        #expect(events.map(\.data) == vector.data)
        if let types = vector.types { #expect(events.map(\.type) == types) }
        if let ids = vector.ids { #expect(events.map(\.lastEventID) == ids) }
        #expect(outputs.compactMap { if case .retry(let delay) = $0 { delay } else { nil } } == vector.retries)
    }

    @Test(arguments: ["\0\0", "x\0", "\0x", "x\0x", " \0"])
    func idWithNullIsIgnored(id: String) throws {
        var parser = SSEParser(lastEventID: "before")
        let outputs = try parser.receive("id:\(id)\ndata:x\n\n".utf8)
        #expect(events(outputs).map(\.lastEventID) == ["before"])
        #expect(parser.lastEventID == "before")
    }

    @Test(arguments: ["\n", "\r\n", "\r"], [1, 2, 1000])
    func everyLineEndGivesTheSameEvents(lineEnd: String, chunk: Int) throws {
        let cases: [([String], [String])] = [
            (["data: Hello", ""], ["Hello"]),
            (["data: Hello", "", "data: a", "data: b", ""], ["Hello", "a\nb"]),
            (["data:", "data: line2", "data: line3", ""], ["\nline2\nline3"]),
            (["data: line1", "data:", "data: line3", ""], ["line1\n\nline3"]),
            (["data: Hello", "", "", "data: World", ""], ["Hello", "World"]),
            (["data: Hello", "", "", "", "data: World", ""], ["Hello", "World"]),
        ]
        for (lines, expected) in cases {
            let stream = lines.map { $0 + lineEnd }.joined()
            #expect(events(try parse(Array(stream.utf8), chunk: chunk)).map(\.data) == expected)
        }
    }

    @Test func carriageReturnAndLineFeedInDifferentChunksAreOneLineEnd() throws {
        var parser = SSEParser()
        var data: [String] = []
        for chunk in ["data: Hello\r", "\ndata: World\r", "\n\r\ndata: OK\r", "\n", "\r", "\n"] {
            data += events(try parser.receive(chunk.utf8)).map(\.data)
        }
        #expect(data == ["Hello\nWorld", "OK"])
    }

    @Test func unfinishedEventIsNotDispatchedAndItsIdNotAdopted() throws {
        var parser = SSEParser()
        #expect(events(try parser.receive("id: 1\ndata: a\n\nid: 2\ndata: b\n".utf8)).map(\.data) == ["a"])
        #expect(parser.lastEventID == "1")
    }

    @Test func commentIsReportedBeforeTheBlankLine() throws {
        var parser = SSEParser()
        #expect(try parser.receive(": hi\n".utf8) == [.comment(" hi")])
        #expect(try parser.receive("\u{FEFF}: no\n".utf8) == [])
    }

    @Test func invalidUTF8CutBetweenChunksBecomesAReplacementCharacter() throws {
        let bytes = Array("data:a".utf8) + [0xE2, 0x82] + Array("b\n\n".utf8)
        for chunk in [1, 7, 100] { #expect(events(try parse(bytes, chunk: chunk)).map(\.data) == ["a\u{FFFD}b"]) }
    }

    @Test func fiveMebibytesArriveWhole() throws {
        let text = String(repeating: "0123456789abcdef", count: 5 << 16)
        #expect(events(try parse(Array("data:\(text)\n\n".utf8), chunk: 65_536)).map(\.data.utf8.count) == [5 << 20])
    }

    @Test func lineBeyondTheLimitIsAnErrorAndNotKept() throws {
        var parser = SSEParser(maxBytes: 100)
        #expect(throws: SSEParser.TooLong.self) { try parser.receive(repeatElement(0x61, count: 101)) }
        var many = SSEParser(maxBytes: 100)
        #expect(throws: SSEParser.TooLong.self) {
            try many.receive(Array(repeating: "data: 12345\n", count: 30).joined().utf8)
        }
    }

    @Test func whatTheEncoderWritesTheParserReads() throws {
        var parser = SSEParser()
        let bytes =
            SSEEncoder.retry(milliseconds: 1500) + SSEEncoder.comment("hello")
            + SSEEncoder.event("synced", id: "e.7", data: "{}".utf8) + SSEEncoder.event(data: "x".utf8)
        #expect(
            try parser.receive(bytes) == [
                .retry(1500), .comment(" hello"),
                .event(ServerSentEvent(type: "synced", data: "{}", lastEventID: "e.7")),
                .event(ServerSentEvent(data: "x", lastEventID: "e.7")),
            ])
    }
}

extension SSEParserTests {
    /// Parses the transcript in pieces of any size.
    @Test(arguments: [1, 7, 64, 10_000]) func theGoldenTranscriptIsTheseEvents(piece: Int) throws {
        let epoch = "abcdefghijklmnopqrstuvwxyz"
        var rest = Array(try GoldenTranscript.events.text().utf8)[...]
        var parser = SSEParser()
        var outputs: [SSEParser.Output] = []
        while !rest.isEmpty {
            outputs += try parser.receive(rest.prefix(piece))
            rest = rest.dropFirst(piece)
        }
        let events = outputs.compactMap { if case .event(let event) = $0 { event } else { nil } }
        #expect(outputs.prefix(2) == [.retry(3000), .comment(" stalecast")])
        #expect(events.map(\.type) == ["reset", "unknown-topics", "message", "synced", "message", "message"])
        #expect(events.map(\.lastEventID) == ["", ""] + [1, 1, 2, 3].map { "\(epoch).\($0)" })
        let versions = try events.filter { $0.type == "message" }.map {
            try JSONValue.parse($0.data.utf8)["latestTemplateVersionNumber"]?.versionNumber
        }
        #expect(versions == [1, 2, 3])
    }
}
