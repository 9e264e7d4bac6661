import Foundation
import StalecastClient
import StalecastTestSupport
import Testing

/// Tests that a server's answers cost an app in proportion to their length.
@Suite struct DoublingTests {
    private static let url = URL(string: "http://127.0.0.1:1")!

    private static var firebase: FirebaseDialect {
        let stream = FirebaseStreamRequest(project: "demo", namespace: "firebase", apiKey: "k", appID: "1:1:ios:a") {
            ("a", "b")
        }
        return FirebaseDialect(endpoint: url, stream, options: ConnectionOptions(), version: 0)
    }

    private static let streams = [
        GrowingText("{\"latestTemplateVersionNumber\":\"#\"}\n"), GrowingText("{"), GrowingText("}"), GrowingText("x"),
        GrowingText("\\\"", after: "{\"a\":\""), GrowingText("\"a#\":1,", after: "{", before: "\"b\":2}"),
        GrowingText("data: {\"topic\":\"a#\"}\n\n"), GrowingText("id: #\n"), GrowingText("x", after: "data: "),
        GrowingText("{\"topic\":\"a#\"},", after: "{\"cursor\":\"a.1\",\"messages\":[", before: "{}]}"),
        GrowingText("\"a#\",", after: "{\"cursor\":\"a.1\",\"messages\":[{\"changedKeys\":[", before: "\"z\"]}]}"),
    ]

    @Test(arguments: streams) func readingStreamsAndPollsIsLinear(text: GrowingText) throws {
        for piece in [1, 100, 1 << 15] {
            try expectLinear(upTo: 1 << 14, text.bytes) { try Self.read(Self.firebase, $0, piece) }
            try expectLinear(upTo: 1 << 14, text.bytes) {
                try Self.read(EventStreamDialect(StreamRequest(url: Self.url), lastEventID: nil), $0, piece)
            }
            try expectLinear(upTo: 1 << 14, text.bytes) {
                let poll = PollDialect(StreamRequest(url: Self.url), cursor: nil, wait: 1)
                try Self.read(poll, $0, piece)
            }
        }
    }

    private static func read(_ dialect: some LinkDialect, _ bytes: [UInt8], _ piece: Int) throws {
        var dialect = dialect
        for start in stride(from: 0, to: bytes.count, by: piece) {
            _ = try dialect.receive(Array(bytes[start..<min(start + piece, bytes.count)]))
        }
        _ = try dialect.end()
    }

    @Test(arguments: ["X-#: y\r\n", "A: b\r\n", "Retry-After: 1\r\n", "HTTP/1.1 100 Continue\r\n", "é\r\n", ":\r\n"])
    func readingAHeadIsLinear(line: String) throws {
        try expectLinear(upTo: ResponseHeadReader.maxBytes) { size in
            GrowingText(line, after: "HTTP/1.1 200 OK\r\n", before: "\r\n").text(size - 32)
                .split(separator: "\r\n", omittingEmptySubsequences: false).dropLast().map { Array("\($0)\r\n".utf8) }
        } _: { lines in
            var reader = ResponseHeadReader()
            for line in lines {
                guard case .head(let head) = line.withUnsafeBytes({ reader.take($0) }) else { continue }
                _ = (head.mediaType, head.retryAfter(now: Date(timeIntervalSince1970: 0)))
            }
        }
    }
}
