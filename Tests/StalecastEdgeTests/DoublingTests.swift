import NIOCore
import NIOEmbedded
import StalecastEdge
import StalecastHTTP
import StalecastTestSupport
import StalecastWire
import Testing

/// What anybody may send to Edge costs in proportion to its length.
@Suite struct DoublingTests {
    private static let requests = [
        GrowingText("a#,", after: "GET /v1/events?topic=", before: " HTTP/1.1\r\nHost: a\r\n\r\n"),
        GrowingText("topic=a#&", after: "GET /v1/events?", before: " HTTP/1.1\r\nHost: a\r\n\r\n"),
        GrowingText("topic=a&", after: "GET /v1/poll?", before: " HTTP/1.1\r\nHost: a\r\n\r\n"),
        GrowingText(",", after: "GET /v1/poll?topic=", before: " HTTP/1.1\r\nHost: a\r\n\r\n"),
        GrowingText("%41", after: "GET /v1/poll?topic=", before: " HTTP/1.1\r\nHost: a\r\n\r\n"),
        GrowingText("1", after: "GET /v1/poll?topic=a&cursor=", before: " HTTP/1.1\r\nHost: a\r\n\r\n"),
        GrowingText("9", after: "GET /v1/poll?topic=a&wait=", before: " HTTP/1.1\r\nHost: a\r\n\r\n"),
        GrowingText("&", after: "GET /v1/poll?topic=a", before: " HTTP/1.1\r\nHost: a\r\n\r\n"),
        GrowingText("X-#: y\r\n", after: "GET /v1/events?topic=a HTTP/1.1\r\nHost: a\r\n", before: "\r\n"),
        GrowingText("Cookie: y\r\n", after: "GET /v1/events?topic=a HTTP/1.1\r\nHost: a\r\n", before: "\r\n"),
        GrowingText("x", after: "GET /v1/events?topic=a HTTP/1.1\r\nHost: a\r\nLast-Event-ID: ", before: "\r\n\r\n"),
        GrowingText(" ", after: "GET /v1/events?topic=a HTTP/1.1\r\nHost: a\r\nX:", before: "\r\n\r\n"),
        GrowingText("x", after: "GET /v1/events?topic=a HTTP/1.1\r\nHost: "),
    ]

    @Test(arguments: requests) func recognisingIsLinear(request: GrowingText) throws {
        for maxTopics in [64, 4096] {
            try expectLinear(upTo: 1 << 15, request.bytes) { bytes in
                _ = bytes.withUnsafeBufferPointer { Recogniser.recognise($0, maxTopics: maxTopics) }
            }
        }
    }

    // MARK: The Front

    /// Answers nothing: the reading is what counts.
    private final class Reader: RequestHandler {
        private(set) var requests = 0
        weak var connection: HTTPConnection?

        func admit(_ head: RequestHead) throws(GoogleError) -> Int { 1 << 20 }
        func serve(_ request: Request) {
            requests += 1
            let front = FrontRequest(request)
            // Whatever it says of the query.
            _ = try? StreamRequest(
                kind: .poll, query: front.query.utf8, headers: front.streamHeaders, maxTopics: 64)
        }
        func faulted(_ fault: ConnectionFault) {}
        func becameWritable() {}
        func drain() {}
        func closed() {}
    }

    /// What NIO's parser and the rules beyond it take for one connection's bytes, in pieces.
    private static func front(_ bytes: [UInt8], piece: Int) throws {
        let channel = EmbeddedChannel()
        defer { _ = try? channel.finish(acceptAlreadyClosed: true) }  // It may have ended the connection itself.
        var limits = ConnectionLimits()
        limits.maxHeadBytes = 1 << 20
        let loop = ConnectionLoop(channel.embeddedEventLoop)
        try HTTPConnection.open(on: channel, limits: limits, loop: loop) { _ in Reader() }
        var index = 0
        while index < bytes.count {
            let end = min(index + piece, bytes.count)
            try channel.writeInbound(ByteBuffer(bytes: bytes[index..<end]))
            index = end
        }
    }

    private static let post = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

    @Test(
        arguments: requests + [
            GrowingText("1\r\nx\r\n", after: post, before: "0\r\n\r\n"), GrowingText("1;a=b\r\nx\r\n", after: post),
            GrowingText("x", after: post + "1;"), GrowingText("A: b\r\n", after: post + "0\r\n", before: "\r\n"),
            GrowingText("b", after: post + "0\r\nA: ", before: "\r\n\r\n"), GrowingText("\r\n"),
            GrowingText("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), GrowingText("x"),
        ])
    func whatTheFrontReadsIsLinear(request: GrowingText) throws {
        for piece in [1, 16, 1 << 14] {
            try expectLinear(upTo: 1 << 14, request.bytes) { try Self.front($0, piece: piece) }
        }
    }

    // MARK: Bodies

    @Test(arguments: [
        GrowingText("a#:1,", after: "{", before: "b:2}"), GrowingText("\"a#\":\"x\",", after: "{", before: "b:2}"),
        GrowingText("x", after: "{a:'", before: "'}"), GrowingText("'", after: "{a:'"),
        GrowingText("' ", after: "{a:'"),
        GrowingText("'  \n", after: "{a:'"), GrowingText(" ", after: "{a:'b'"),
        GrowingText("\\n", after: "{a:\"", before: "\"}"),
        GrowingText("1,", after: "{a:[", before: "1]}"), GrowingText("{a:"), GrowingText("["),
        GrowingText("(null),", after: "{a:["),
        GrowingText("9", after: "{a:", before: "}"), GrowingText("é", after: "{", before: ":1}"),
        GrowingText("\u{315}\u{300}", after: "{a", before: ":1}"), GrowingText("\"\\u0041\":1,", after: "{"),
        GrowingText(
            "\"s#\":\"x\",", after: "{appId:'a',appInstanceId:'b',appInstanceIdToken:'c',custom_signals:{", before: "}}"
        ),
        GrowingText("1", after: "{appId:'a',appInstanceId:'b',appInstanceIdToken:'c',firstOpenTime:'", before: "'}"),
    ])
    func readingABodyIsLinear(body: GrowingText) throws {
        try expectLinear(upTo: 1 << 16, body.bytes) { bytes in
            let object = try RequestBody.object(bytes, cap: 1 << 20)
            _ = try FetchRequest.context(object, at: Timestamp(microseconds: 0))
        }
    }

    @Test(arguments: [GrowingText("/"), GrowingText("a/"), GrowingText("%2F"), GrowingText(":"), GrowingText("é")])
    func readingAPathIsLinear(path: GrowingText) throws {
        for head in ["/v1/projects/", "/v1/projects/p/namespaces/", "/v1/projects/p/installations/"] {
            let fetch: PathTemplate = "/v1/projects/{project}/namespaces/{namespace}:fetch"
            try expectLinear(upTo: 1 << 14, { head + path.text($0) }) { text in
                let segments = text.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
                _ = fetch.match(segments.map { PercentEncoding.decode($0) ?? String($0) })
            }
        }
    }
}
