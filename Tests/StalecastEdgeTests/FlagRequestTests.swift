import StalecastAccess
import StalecastEdge
import StalecastTemplate
import StalecastTestSupport
import StalecastWire
import Testing

/// Requests of OpenFeature's providers: what their two readers make of a body, who answers, where streams are.
@Suite(.timeLimit(.minutes(5))) struct FlagRequestTests {
    private static let path = "/ofrep/v1/evaluate/flags"
    private static let scoped = "/v1/projects/demo/namespaces/firebase/ofrep/v1/evaluate/flags"

    // MARK: Bodies

    /// nil for what is not ordinary.
    private func scanned(_ bytes: [UInt8]) -> EvaluationContext? {
        bytes.withUnsafeBufferPointer { bytes in
            FetchScan(bytes, isOfFlags: true).map { FlagContext.context($0, at: Timestamp(microseconds: 0)) }
        }
    }

    private func lenient(_ bytes: [UInt8]) -> EvaluationContext? {
        try? FlagContext.context(FlagFields(bytes), at: Timestamp(microseconds: 0))
    }

    private static let bodies = [
        #"{"context":{"targetingKey":"u","platform":"iOS","appVersion":"2.1","country":"DE","appId":"1:2:web:3"}}"#,
        #"{"context":{"firstOpenTime":"2026-01-05T10:00:00Z","plan":"pro","n":1.5e3,"b":true,"x":null,"plan":"free"}}"#,
        #" { "context" : { } } "#,
        #"{"context":{"os":"web","languageCode":"de-AT","timeZone":"Europe\/Paris","appBuild":7,"targetingKey":null}}"#,
    ]

    @Test(arguments: bodies) func whatProvidersSendIsOrdinary(body: String) {
        #expect(scanned(Array(body.utf8)) != nil && scanned(Array(body.utf8)) == lenient(Array(body.utf8)))
    }

    @Test(arguments: [
        #"{"context":{"targetingKey":1}}"#, #"{"context":{"a":[1]}}"#, #"{"context":{},"b":1}"#, #"{"context":3}"#,
        "{}", #"{"context":{"os":"web","platform":"ios"}}"#, #"{"context":{"a":"é"}}"#, #"{"context":{"a":1,}}"#,
    ])
    func doubtIsLeftToTheOtherReader(body: String) { #expect(scanned(Array(body.utf8)) == nil) }

    /// Seeded damage to good bodies; a failing seed can be run again alone.
    @Test(arguments: 0..<20) func damagedBodiesAreReadAsTheOtherReaderReadsThem(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let damage = Array("\"\\{}[]:,'x0-.tn/ u\t\u{7F}\u{0}é".utf8)
        var ordinary = 0
        for _ in 0..<300 {
            var bytes = Array(Self.bodies.randomElement(using: &random)!.utf8)
            for _ in 0..<Int.random(in: 0..<3, using: &random) {
                let index = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<3, using: &random) {
                case 0: bytes[index] = damage.randomElement(using: &random)!
                case 1: bytes.insert(damage.randomElement(using: &random)!, at: index)
                default: bytes.remove(at: index)
                }
            }
            guard let context = scanned(bytes) else { continue }
            ordinary += 1
            #expect(context == lenient(bytes), "\(String(decoding: bytes, as: UTF8.self).debugDescription)")
        }
        #expect(ordinary > 0, "the damage must leave some bodies whole")
    }

    // MARK: Carriers

    private func with(
        engine: Bool = true, _ change: (inout EdgeSettings) -> Void = { _ in }, _ body: (LiveEdge) async throws -> Void
    ) async throws {
        try await LiveEdge.with(engine: engine, change) { live in
            let parameters = [
                "p": TemplateParameter(defaultValue: .value("d"), conditionalValues: ["pro": .value("x")])
            ]
            let condition = TemplateCondition(
                name: "pro", expression: "app.customSignal['plan'].exactlyMatches(['pro'])")
            live.served.install(Template(conditions: [condition], parameters: parameters), .fetchable(1))
            // The first request of all makes the flags, at the Front.
            _ = try live.served.scope("demo", "firebase").flags(Array("{}".utf8))
            try await body(live)
        }
    }

    private func request(_ path: String, _ context: String, _ headers: [String] = []) -> String {
        let body = "{\"context\":\(context)}"
        let lines = ["POST \(path) HTTP/1.1", "Host: x", "Content-Length: \(body.utf8.count)"] + headers
        return lines.joined(separator: "\r\n") + "\r\n\r\n" + body
    }

    /// The whole answer, without its date.
    private func ask(_ live: LiveEdge, _ path: String, _ context: String = "{}", _ headers: [String] = []) throws
        -> String
    {
        let client = live.client()
        defer { client.close() }
        client.send(request(path, context, headers))
        try client.read { client in
            let parts = client.text.split(separator: "\r\n\r\n", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { return false }
            let length = parts[0].split(separator: "\r\n").first { $0.hasPrefix("Content-Length: ") }
            return parts[1].utf8.count >= length.flatMap { Int($0.dropFirst(16)) } ?? 0
        }
        return client.text.split(separator: "\r\n", omittingEmptySubsequences: false)
            .filter { !$0.hasPrefix("Date: ") }.joined(separator: "\r\n")
    }

    private func tag(_ answer: String) throws -> Substring {
        try #require(answer.split(separator: "\r\n").first { $0.hasPrefix("ETag: ") }).dropFirst(6)
    }

    @Test func engineAndFrontAnswerAlike() async throws {
        var answers: [[String]] = []
        for engine in [true, false] {
            try await with(engine: engine, { $0.allowedOrigins = ["https://app.example"] }) { live in
                let origin = "Origin: https://app.example"
                let all = try ask(live, Self.path, #"{"plan":"pro"}"#, [origin])
                #expect(all.contains("Access-Control-Expose-Headers: ETag, Retry-After"))
                #expect(all.contains("/v1/events?topic=PUSH_RC&project=demo&namespace=firebase&have=0\""))
                let unchanged = try ask(live, Self.scoped, #"{"plan":"pro"}"#, ["If-None-Match: \(try tag(all))"])
                #expect(unchanged.hasPrefix("HTTP/1.1 304 ") && !unchanged.contains("Content-Length"))
                let announced = try ask(live, Self.path + "?flagConfigEtag=etag-1-1", "{}", [origin])
                let one = try ask(live, Self.scoped + "/p", #"{"plan":"pro"}"#)
                #expect(one.contains(#"{"key":"p","value":"x","reason":"TARGETING_MATCH","variant":"pro","metadata":"#))
                try await live.wait { $0.fetches.total == 4 }
                #expect(live.edge.tally.handedOver == (engine ? 0 : live.edge.tally.handedOver))
                answers.append([all, unchanged, announced, one])
            }
        }
        #expect(answers[0] == answers[1])
    }

    @Test func whatIsWrongWithARequestIsSaidByTheFront() async throws {
        try await with({ $0.apiKeys = ["k"] }) { live in
            let key = ["X-API-Key: k"]
            for (answer, status, code) in [
                (try ask(live, Self.path + "/p", "{}", key), 200, ""), (try ask(live, Self.path), 403, "GENERAL"),
                (try ask(live, Self.path + "/q", "{}", key), 404, "FLAG_NOT_FOUND"),
                (try ask(live, Self.path, "3", key), 400, "INVALID_CONTEXT"),
                (try ask(live, Self.path + "?flagConfigEtag=etag-1-2", "{}", key), 503, "GENERAL"),
                (try ask(live, "/v1/projects/none/namespaces/x" + Self.path, "{}", key), 404, "GENERAL"),
            ] {
                #expect(answer.hasPrefix("HTTP/1.1 \(status) ") && answer.contains(code), "\(answer)")
            }
            try await live.wait { $0.handedOver == 5 }
        }
    }

    // MARK: Streams

    private func uri(_ live: LiveEdge, _ context: String = "{}", _ headers: String...) throws -> String? {
        let answer = try ask(live, Self.path, context, headers)
        let json = try JSONValue.parse(Array(answer.split(separator: "\r\n\r\n", maxSplits: 1)[1].utf8))
        return json["eventStreams"]?.array?.first?["endpoint"]?["requestUri"]?.string
    }

    private static let stream = "topic=PUSH_RC&project=demo&namespace=firebase&have=0"

    @Test(arguments: [true, false]) func aStreamThatIsNamedIsServed(engine: Bool) async throws {
        try await with(engine: engine, { $0.apiKeys = ["k+1"] }) { live in
            let query = Self.stream + "&client=a%40b&key=k%2B1"
            let found = try uri(live, #"{"targetingKey":"a@b"}"#, "X-API-Key: k+1")
            #expect(found == "/v1/events?\(query)")
            _ = try live.stream(query)
        }
    }

    /// The stream of the client before would be that of another stage.
    @Test func anotherClientIsNotToldToKeepTheStreamOfTheOneBefore() async throws {
        try await with { live in
            let anna = try ask(live, Self.path, #"{"targetingKey":"anna"}"#)
            let held = "If-None-Match: \(try tag(anna))"
            #expect(try ask(live, Self.path, #"{"targetingKey":"anna"}"#, [held]).hasPrefix("HTTP/1.1 304 "))
            let bert = try ask(live, Self.path, #"{"targetingKey":"bert"}"#, [held])
            #expect(bert.hasPrefix("HTTP/1.1 200 ") && bert.contains("client=bert"))
        }
    }

    @Test func onlyAKeyThatAppsMayShowStandsInAURL() async throws {
        let grants = [Grant(actions: [.watch, .fetch])]
        var random = SystemRandomNumberGenerator()
        let keys = APIKey.Kind.allCases.map { APIKey($0, using: &random) }
        let authorizer = Authorizer()
        authorizer.configure(
            keys: keys.map { AccessKey(id: $0.id, kind: $0.kind, grants: grants, secrets: [.init($0.digest)]) },
            plain: [], anonymous: [])
        try await with({ $0.access = EdgeAccess(.enforce, authorizer) }) { live in
            let named = "/v1/events?\(Self.stream)&key=\(keys[0].text)"
            for (header, wanted) in [
                ("X-API-Key: \(keys[0].text)", named), ("Authorization: Bearer \(keys[0].text)", named),
                ("X-API-Key: \(keys[1].text)", nil), ("Authorization: Bearer \(keys[1].text)", nil),
            ] {
                let found = try uri(live, "{}", header)
                #expect(found == wanted)
            }
            // No key is put into the URL where none is required.
            authorizer.configure(keys: [], plain: [], anonymous: grants)
            let open = try uri(live)
            #expect(open == "/v1/events?\(Self.stream)")
        }
    }
}
