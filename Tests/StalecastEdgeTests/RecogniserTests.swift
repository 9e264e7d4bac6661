import NIOCore
import NIOEmbedded
import NIOHTTP1
import StalecastEdge
import StalecastHTTP
import StalecastHub
import StalecastWire
import StalecastTestSupport
import Testing

@Suite struct RecogniserTests {
    static func recognise(_ text: String) -> StreamRequest? {
        recognise(Array(text.utf8))
    }

    static func recognise(_ bytes: [UInt8]) -> StreamRequest? {
        bytes.withUnsafeBufferPointer { Recogniser.find($0, maxTopics: 64)?.stream }
    }

    @Test func anOrdinaryRequestIsRecognised() {
        let request = Self.recognise(
            "GET /v1/events?topic=PUSH_RC&topic=b&have=3 HTTP/1.1\r\nHost: x\r\nLast-Event-ID:  abc \r\n"
                + "Origin: https://a.example\r\nUser-Agent: curl/8\r\n\r\n")
        #expect(request?.kind == .events)
        #expect(request?.topics.map(\.description) == ["PUSH_RC", "b"])
        #expect(request?.resume == ResumePoint(cursor: "abc", have: 3))
        #expect(request?.origin == "https://a.example")
        #expect(request?.keepAlive == true)
    }

    @Test func aStreamHasSoManyTopicsAndNoMore() throws {
        func request(_ topics: Int) throws -> StreamRequest {
            let query = (0..<topics).map { "topic=t\($0)" }.joined(separator: "&")
            #expect((Self.recognise("GET /v1/events?\(query) HTTP/1.1\r\nHost: x\r\n\r\n") != nil) == (topics <= 64))
            return try StreamRequest(
                kind: .events, query: Array(query.utf8), headers: StreamHeaders(), maxTopics: 64)
        }
        #expect(try request(64).topics.count == 64)
        let error = #expect(throws: GoogleError.self) { try request(65) }
        #expect(error?.code == 400)
    }

    @Test func anHTTP10PollClosesItsConnection() {
        let request = Self.recognise("GET /v1/poll?topic=a&wait=500ms HTTP/1.0\r\n\r\n")
        #expect(request?.isHTTP11 == false)
        #expect(request?.keepAlive == false)
        #expect(request?.waitMs == 500)
    }

    @Test(arguments: [
        "GET /v1/events?topic=a HTTP/1.1\r\n\r\n",  // no Host
        "GET /v1/events?topic=a HTTP/1.1\r\nHost: x\r\n",  // half a head
        "GET /v1/events?topic=a HTTP/1.1\r\nHost: x\r\n\r\nGET",  // something after it
        "GET /v1/events?topic=a HTTP/1.1\nHost: x\n\n",  // bare line feeds
        "GET /v1/events?topic=a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        "GET /v1/events?topic=a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        "GET /v1/events?topic=a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET /v1/events?topic=a HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\n\r\n",
        "GET /v1/events?topic=a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n\r\n",
        "GET /v1/events?topic=a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n",
        "GET /v1/events?topic=a HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n",
        "GET /v1/events?topic=a HTTP/1.1\r\nHost: x\r\nX: \u{0}\r\n\r\n",
        "GET /v1/events?topic=a HTTP/1.1\r\nHost: x\r\nX: ü\r\n\r\n",
        "GET /v1/events?topic=a HTTP/1.1\r\nHost : x\r\n\r\n",
        "GET  /v1/events?topic=a HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /v1/events?topic=a HTTP/2.0\r\nHost: x\r\n\r\n",
        "GET /v1/events?topic=%zz HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /v1/events?topic=a%20b HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /v1/events?have=1 HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /v1/events?topic=a HTTP/1.1\r\nHost: x\r\n\r\n",
        "",
    ])
    func doubtMeansHandOver(text: String) {
        #expect(Self.recognise(text) == nil)
    }

    // MARK: Fetches

    private static let fetch = "POST /v1/projects/demo/namespaces/firebase:fetch"

    private static func find(_ text: String) -> Recogniser.Found? {
        Array(text.utf8).withUnsafeBufferPointer { Recogniser.find($0, maxTopics: 64) }
    }

    @Test func anOrdinaryFetchIsRecognisedWithItsBody() throws {
        let text =
            Self.fetch + "?key=AIza%2D1 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 7\r\n"
            + "If-None-Match: etag-1\r\nX-Goog-Api-Key: k\r\n\r\n"
        guard case .fetch(let head)? = Self.find(text + "{\"a\":1}") else {
            return #expect(Bool(false), "not recognised")
        }
        #expect(head.length == text.utf8.count && head.ifNoneMatch == "etag-1" && head.keepAlive)
    }

    @Test(arguments: ["{", "{\"a\":1", ""])
    func aFetchWhoseBodyIsNotWholeIsItsBeginning(part: String) {
        let found = Self.find(Self.fetch + " HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n" + part)
        guard case .beginningOfFetch? = found else { return #expect(Bool(false), "\(String(describing: found))") }
    }

    @Test(arguments: [
        "POST /v1/projects/demo/installations HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        "POST v1/projects/demo/namespaces/firebase:fetch HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        "PUT /v1/projects/demo/namespaces/firebase:fetch HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        "\(fetch) HTTP/1.0\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        "\(fetch) HTTP/1.1\r\nHost: x\r\n\r\n",
        "\(fetch) HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
        "\(fetch) HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        "\(fetch) HTTP/1.1\r\nHost: x\r\nContent-Length: +2\r\n\r\n{}",
        "\(fetch) HTTP/1.1\r\nHost: x\r\nContent-Length: 2, 2\r\n\r\n{}",
        "\(fetch) HTTP/1.1\r\nHost: x\r\nContent-Length: 16385\r\n\r\n{}",
        "\(fetch) HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        "\(fetch) HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n{}",
        "\(fetch) HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Lenght: 9\r\n\r\n{}",
        "\(fetch) HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}POST",
        "\(fetch) HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\n{}",
    ])
    func doubtAboutAFetchMeansHandOver(text: String) {
        if let found = Self.find(text) { #expect(Bool(false), "\(found)") }
    }

    @Test func theStateIsRecognised() {
        guard let request = Self.find("GET /v1/state?topic=a HTTP/1.1\r\nHost: x\r\n\r\n")?.stream else {
            return #expect(Bool(false), "not recognised")
        }
        #expect(request.topics.map(\.description) == ["a"] && request.kind == .state)
    }

    /// Checks that NIO's parser accepts all that the recogniser does, with the same meaning. Mutations of good
    /// requests, seeded; a failing seed can be run again alone.
    @Test(arguments: 0..<40)
    func whatIsRecognisedMeansTheSameToNIO(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var recognised = 0
        for _ in 0..<500 {
            let bytes = RequestMutation.next(using: &random)
            guard let request = Self.recognise(bytes) else { continue }
            recognised += 1
            let parsed = try #require(NIOParse(bytes).request, "NIO refuses \(String(decoding: bytes, as: UTF8.self))")
            let kind: StreamRequest.Kind = parsed.path == "/v1/events" ? .events : .poll
            #expect(parsed.head.method == .GET)
            let same = try StreamRequest(
                kind: kind, query: Array(parsed.query.utf8), headers: parsed.streamHeaders, maxTopics: 64)
            #expect(request == same, "\(String(decoding: bytes, as: UTF8.self).debugDescription)")
        }
        #expect(recognised > 0, "the mutations must leave some requests whole")
    }
}

/// A request as NIO's decoder reads it from the same bytes.
struct NIOParse {
    let request: FrontRequest?

    init(_ bytes: [UInt8]) {
        let channel = EmbeddedChannel()
        defer { _ = try? channel.finish(acceptAlreadyClosed: true) }
        do {
            try channel.pipeline.syncOperations.addHandler(
                ByteToMessageHandler(HTTPRequestDecoder(leftOverBytesStrategy: .dropBytes)))
            try channel.writeInbound(ByteBuffer(bytes: bytes))
            var parts: [HTTPServerRequestPart] = []
            while let part = try channel.readInbound(as: HTTPServerRequestPart.self) { parts.append(part) }
            guard parts.count == 2, case .head(let head) = parts[0], case .end = parts[1] else {
                request = nil
                return
            }
            request = FrontRequest(Request(try RequestHead(head)))
        } catch {
            request = nil
        }
    }
}

/// Plausible requests with small damage.
enum RequestMutation {
    private static let heads = [
        "GET /v1/events?topic=PUSH_RC HTTP/1.1", "GET /v1/poll?topic=a,b&wait=5s HTTP/1.1",
        "GET /v1/events?topic=a&last_event_id=x.1 HTTP/1.0", "GET /v1/poll?topic=%41&cursor=q HTTP/1.1",
    ]
    private static let fields = [
        "Host: localhost:8080", "host: a", "Connection: close", "Connection: Keep-Alive", "Last-Event-ID: abc.12",
        "Accept: text/event-stream", "Origin: http://a.example", "User-Agent: x (y; z)", "Cookie: a=b",
        "Content-Length: 0", "Transfer-Encoding: identity", "Keep-Alive: timeout=5", "TE: trailers", "X-Empty:",
    ]
    private static let damage: [UInt8] = [
        0, 9, 10, 13, 32, 34, 35, 37, 38, 44, 47, 58, 59, 61, 63, 64, 92, 127, 128, 255, 65, 97, 48,
    ]

    static func next(using random: inout SeededRandom) -> [UInt8] {
        var lines = [heads.randomElement(using: &random)!]
        if Int.random(in: 0..<8, using: &random) > 0 { lines.append("Host: localhost") }
        for _ in 0..<Int.random(in: 0..<5, using: &random) { lines.append(fields.randomElement(using: &random)!) }
        var bytes = Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8)
        for _ in 0..<Int.random(in: 0..<3, using: &random) {
            let index = Int.random(in: 0..<bytes.count, using: &random)
            switch Int.random(in: 0..<3, using: &random) {
            case 0: bytes[index] = damage.randomElement(using: &random)!
            case 1: bytes.insert(damage.randomElement(using: &random)!, at: index)
            default: bytes.remove(at: index)
            }
        }
        return bytes
    }
}
