import NIOCore
import NIOEmbedded
import StalecastEdge
import StalecastHTTP
import StalecastTemplate
import StalecastTestSupport
import StalecastWire
import Testing

/// Tests that what any client may send to Edge costs in proportion to its length.
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
                _ = bytes.withUnsafeBufferPointer { Recogniser.find($0, maxTopics: maxTopics)?.stream }
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
            // Only the parser's work counts here, not its result.
            _ = try? StreamRequest(
                kind: .poll, query: front.query.utf8, headers: front.streamHeaders, maxTopics: 64)
        }
        func faulted(_ fault: ConnectionFault) {}
        func becameWritable() {}
        func drain() {}
        func closed() {}
    }

    /// Result of NIO's parser and the rules beyond it for one connection's bytes, in pieces.
    private static func front(_ bytes: [UInt8], piece: Int) throws {
        let channel = EmbeddedChannel()
        defer { _ = try? channel.finish(acceptAlreadyClosed: true) }  // It may have ended the connection itself.
        var limits = ConnectionLimits()
        limits.maxHeadBytes = 1 << 20
        let loop = ConnectionLoop(channel.embeddedEventLoop)
        try loop.receive(channel, limits: limits, tls: nil, Reception { _ in Reader() })
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

    // MARK: Every text of a fetch, and of a stream

    /// Texts for which Swift's characters, its comparison and its hashing have long ways: letters, flags, marks up to the
    /// longest run that is let in, joiners.
    private static let alphabets = [
        "a", "\u{1F1E9}\u{1F1EA}", "a" + String(repeating: "\u{315}\u{300}", count: 30), "\u{1F469}\u{200D}",
    ]

    /// A scope whose conditions look at everything a fetch can say.
    private static let fetched: ServedTemplates = {
        let expressions = [
            "app.id == 'x'", "device.country in ['AA', 'BB']", "device.language in ['en-US', 'fr']",
            "app.version.>=(['2.1.0'])", "app.version.matches(['^1'])", "app.build.contains(['12'])",
            "app.userProperty['plan'].exactlyMatches(['pro'])", "app.userProperty['plan'] >= 10",
            "app.customSignal['plan'].contains(['x'])", "app.customSignal['plan'] != 3", "percent <= 10",
            "app.firstOpenTimestamp < ('2026-01-01T00:00:00')", "dateTime < dateTime('2026-01-01T00:00:00')",
        ]
        let conditions = (0..<130).map {
            TemplateCondition(name: "c\($0)", expression: expressions[$0 % expressions.count])
        }
        let parameters = conditions.map {
            ($0.name, TemplateParameter(defaultValue: .value(""), conditionalValues: [$0.name: .value("x")]))
        }
        let served = ServedTemplates([
            ServedTemplates.Project(id: LiveEdge.scope.project, number: 1, namespaces: [.firebase])
        ])
        served.install(
            Template(conditions: conditions, parameters: Dictionary(uniqueKeysWithValues: parameters)), .fetchable(1))
        return served
    }()

    /// One of these texts cost a second of CPU for 60 KB of flags, another one 228 ms for 1,000 conditions.
    @Test(arguments: [
        "appId", "appInstanceId", "appInstanceIdToken", "countryCode", "languageCode", "timeZone", "platformVersion",
        "appVersion", "appBuild", "packageName", "sdkVersion", "firstOpenTime", "activeTemplateVersion", "plan",
        "other",
    ])
    func everyTextOfAFetchCostsInProportion(member: String) throws {
        let scope = try Self.fetched.scope("demo", "firebase")
        for alphabet in Self.alphabets {
            let attributes = ["plan", "other"].contains(member) ? [member: "§"] : ["plan": "1"]
            var members = ["appId": "1:1:android:a", "appInstanceId": "a", "appInstanceIdToken": "t"]
            if attributes[member] == nil { members[member] = "§" }
            var (object, map) = (JSONObject(), JSONObject())
            for (name, text) in members { object[name] = .string(text) }
            for (name, text) in attributes { map[name] = .string(text) }
            for name in ["customSignals", "analyticsUserProperties"] { object[name] = .object(map) }
            let parts = JSONValue.object(object).text(JSONStyle(asciiOnly: false)).split(
                separator: "§", omittingEmptySubsequences: false)
            // A text may be in the body more than once.
            let body = { (size: Int) in
                Array(parts.joined(separator: GrowingText(alphabet).text(size / max(1, parts.count - 1))).utf8)
            }
            #expect(throws: Never.self) { try scope.answer(body(16), ifNoneMatch: nil, maxBodyBytes: 1 << 20) }
            try expectLinear(upTo: 1 << 14, body) { bytes in
                _ = try scope.answer(bytes, ifNoneMatch: nil, maxBodyBytes: 1 << 20)
            }
        }
    }

    @Test(arguments: [
        "topic", "client", "app", "sdk", "active", "have", "cursor", "last_event_id", "wait", "project", "namespace",
        "key",
        "other",
    ])
    func everyParameterOfAStreamCostsInProportion(name: String) throws {
        for alphabet in Self.alphabets {
            for piece in [alphabet, alphabet.utf8.map { "%" + String($0, radix: 16) }.joined()] {
                let query = GrowingText(piece, after: "topic=a&client=c&\(name)=")
                try expectLinear(upTo: 1 << 14, query.bytes) { bytes in
                    _ = try StreamRequest(kind: .poll, query: bytes, headers: StreamHeaders(), maxTopics: 64)
                }
            }
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
