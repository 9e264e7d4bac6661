import NIOCore
import StalecastAccess
import StalecastEdge
import StalecastHub
import StalecastTemplate
import StalecastWire
import Testing

/// LaunchDarkly's client-side dialect on both halves of Edge.
@Suite(.serialized, .timeLimit(.minutes(5))) struct LaunchDarklyTests {
    private static let template = Template(
        conditions: [TemplateCondition(name: "pro", expression: "app.customSignal['plan'].exactlyMatches(['pro'])")],
        parameters: [
            "plan": TemplateParameter(defaultValue: .value("free"), conditionalValues: ["pro": .value("paid")]),
            "count": TemplateParameter(defaultValue: .value("3.0"), valueType: .number),
            "object": TemplateParameter(defaultValue: .value(#"{"a":[1]}"#), valueType: .json),
            "app": TemplateParameter(defaultValue: .inAppDefault),
        ])

    private func answer(
        _ served: ServedTemplates, _ context: String, _ form: FlagForm = .launchDarkly, ifNoneMatch: String? = nil
    ) throws -> FetchAnswer {
        try served.scope("demo", "firebase").launchDarkly(
            LaunchDarklyContext(Array(context.utf8)), form, ifNoneMatch: ifNoneMatch)
    }

    private func served() -> ServedTemplates {
        let project = ServedTemplates.Project(id: LiveEdge.scope.project, number: 4711, namespaces: [.firebase])
        return ServedTemplates([project])
    }

    @Test func flagsAreTypedValuesByKeyWithoutThoseOfTheApp() throws {
        let served = served()
        #expect(String(buffer: try answer(served, #"{"key":"k"}"#).bytes.body) == "{}", "nothing is published yet")
        served.install(Self.template, .fetchable(17))
        let found = try answer(served, #"{"kind":"user","key":"k","plan":"pro"}"#)
        let number = #""version":17,"flagVersion":17"#
        #expect(
            String(buffer: found.bytes.body)
                == #"{"count":{"value":3.0,\#(number),"variation":0},"object":{"value":{"a":[1]},\#(number),"variation":0},"#
                + #""plan":{"value":"paid",\#(number),"variation":0}}"#)
        #expect(found.client?.id == "k" && found.dialect == .launchDarkly && found.version == 17)
        #expect(String(buffer: found.bytes.head).contains("Content-Type: application/json"))
    }

    @Test func reasonsAreToldWhereTheyAreWanted() throws {
        let served = served()
        served.install(Self.template, .fetchable(1))
        func reason(_ context: String) throws -> JSONValue? {
            let body = try answer(served, context, .launchDarklyReasons).bytes.body
            return try JSONValue.parse(body.readableBytesView)["plan"]?["reason"]
        }
        #expect(
            try reason(#"{"key":"k","custom":{"plan":"pro"}}"#)
                == ["kind": "RULE_MATCH", "ruleIndex": 0, "ruleId": "pro"])
        #expect(try reason(#"{"key":"k"}"#) == ["kind": "FALLTHROUGH"])
    }

    @Test func anUnchangedAnswerIsNotSentAgain() throws {
        let served = served()
        served.install(Self.template, .fetchable(1))
        let head = String(buffer: try answer(served, #"{"key":"k"}"#).bytes.head)
        let tag = String(try #require(head.split(separator: "\r\n").first { $0.hasPrefix("ETag: ") }).dropFirst(6))
        func isUnchanged(_ context: String) throws -> Bool {
            try answer(served, context, ifNoneMatch: tag).bytes.state == .noChange
        }
        #expect(try isUnchanged(#"{"key":"other"}"#))
        #expect(try !isUnchanged(#"{"key":"k","plan":"pro"}"#))
        served.install(Self.template, .fetchable(2))
        #expect(try !isUnchanged(#"{"key":"k"}"#), "its version is another one")
    }

    /// Stages a release's fetches as those of Firebase's clients with the same id.
    @Test func aContextIsStagedByItsKey() throws {
        let served = served()
        let cut = ReleaseCut(LiveEdge.scope, 2, bounds: [5000, 10_000])
        served.install(Self.template, .fetchable(1))
        served.stage(Self.template, .fetchable(2), cut, stages: 1)
        for id in (0..<20).map({ "client-\($0)" }) {
            let version = try served.scope("demo", "firebase").launchDarkly(
                LaunchDarklyContext(Array(#"{"key":"\#(id)"}"#.utf8)), .launchDarkly, address: 1
            ).version
            #expect(version == (cut.stage(of: ClientKey(id: id)) == 0 ? 2 : 1))
        }
    }

    // MARK: On the wire

    private static let context = Base64URL.encode(Array(#"{"kind":"user","key":"anna"}"#.utf8))

    private func with(
        engine: Bool = true, _ change: @escaping (inout EdgeSettings) -> Void = { _ in },
        _ body: (LiveEdge) async throws -> Void
    ) async throws {
        let settings = { (settings: inout EdgeSettings) in
            settings.dialects = [.launchDarkly]
            change(&settings)
        }
        try await LiveEdge.with(engine: engine, settings) { live in
            live.served.install(Self.template, .fetchable(1))
            live.publish()
            try await body(live)
        }
    }

    /// The whole answer to a request on a connection of its own.
    private func ask(
        _ live: LiveEdge, _ method: String, _ path: String, _ headers: [String] = [], body: String = ""
    ) throws -> String {
        let client = live.client()
        defer { client.close() }
        let length = body.isEmpty ? [] : ["Content-Length: \(body.utf8.count)"]
        let lines = ["\(method) \(path) HTTP/1.1", "Host: x", "Connection: close"] + length + headers
        client.send(lines.joined(separator: "\r\n") + "\r\n\r\n" + body)
        return try client.readToEnd()
    }

    private func status(_ answer: String) -> Int? { Int(answer.dropFirst(9).prefix(3)) }

    private static let ping = "event: ping\ndata:  \n\n"

    @Test(arguments: [true, false], ["/eval/demo/\(context)", "/ping/123456789012", "REPORT /eval/demo", "/mping"])
    func aStreamPingsAtOnceAndForEachVersionAndForNothingElse(engine: Bool, path: String) async throws {
        try await with(engine: engine) { live in
            let isReport = path.hasPrefix("REPORT")
            let body = isReport ? #"{"kind":"user","key":"anna"}"# : ""
            let client = live.client()
            client.send(
                "\(isReport ? path : "GET \(path)") HTTP/1.1\r\nHost: x\r\nAuthorization: demo\r\n"
                    + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)")
            try client.read(untilText: Self.ping)
            #expect(client.text.contains("Content-Type: text/event-stream\r\n") && client.text.contains("retry: "))
            let firebase = try live.invalidations(known: "0")
            live.hub.send(
                DataMessage(target: .condition(try TopicCondition(parsing: "!('pay' in topics)")), in: .demo, data: [:])
            )
            live.publish()
            try client.read { $0.text.components(of: Self.ping) == 2 }
            try firebase.read(untilText: "\"2\"}\n")
            for _ in 0..<50 { live.publish() }
            try firebase.read(untilText: "\"52\"}\n")
            try client.read { $0.text.components(of: Self.ping) >= 3 }
            // A burst is a few messages.
            let pings = client.text.components(of: Self.ping)
            #expect(pings <= 12 && !client.text.contains("synced") && !client.text.contains("latestTemplate"))
        }
    }

    @Test func theHeartbeatOfPingsIsAComment() async throws {
        try await with({ $0.times.heartbeat = .milliseconds(200) }) { live in
            let client = live.client()
            client.get("/eval/demo/\(Self.context)")
            try client.read { $0.text.components(of: ": hb\n") >= 2 }
        }
    }

    @Test(arguments: [
        ("GET", "/sdk/evalx/demo/contexts/\(context)"), ("GET", "/sdk/evalx/123456789012/users/\(context)"),
        ("GET", "/msdk/evalx/contexts/\(context)"), ("GET", "/msdk/evalx/users/\(context)"),
        ("REPORT", "/sdk/evalx/demo/context"), ("REPORT", "/sdk/evalx/demo/user"), ("REPORT", "/msdk/evalx/context"),
        ("REPORT", "/msdk/evalx/user"),
    ])
    func everySpellingOfARequestIsAnswered(method: String, path: String) async throws {
        try await with { live in
            let body = method == "REPORT" ? #"{"key":"anna","custom":{"plan":"pro"}}"# : ""
            let headers = ["Authorization: demo", "Content-Type: application/json"]
            let answer = try ask(live, method, path + "?h=0&withReasons=true", headers, body: body)
            #expect(status(answer) == 200 && answer.contains("\"reason\":{\"kind\":"), "\(answer)")
            #expect(answer.contains(body.isEmpty ? "\"free\"" : "\"paid\""))
            try await live.wait { $0.fetches.answered(.launchDarkly, .update) == 1 }
        }
    }

    @Test func eventsAreTakenAndCountedAndThereAreNoGoals() async throws {
        try await with({ $0.allowedOrigins = ["https://app.example"] }) { live in
            #expect(try ask(live, "GET", "/sdk/goals/demo").hasSuffix("\r\n\r\n[]\n"))
            let paths = [
                "/events/bulk/demo", "/events/diagnostic/demo", "/mobile", "/mobile/events", "/mobile/events/bulk",
                "/mobile/events/diagnostic",
            ]
            for path in paths {
                let headers = ["Authorization: demo", "Origin: https://app.example"]
                let answer = try ask(live, "POST", path, headers, body: "[{\"kind\":\"index\"}]")
                #expect(status(answer) == 202 && answer.contains("Access-Control-Expose-Headers: Date\r\n"))
            }
            try await live.wait { $0.fetches.droppedEvents == paths.count }
            let preflight = try ask(live, "OPTIONS", "/events/bulk/demo", ["Origin: https://app.example"])
            #expect(status(preflight) == 204 && preflight.contains("x-launchdarkly-payload-id"))
            #expect(
                try ask(live, "OPTIONS", "/sdk/evalx/demo/context").contains(
                    "Access-Control-Allow-Methods: REPORT, OPTIONS"))
        }
    }

    @Test func whatCannotBeServedIsSaidAsTheSDKsReadIt() async throws {
        try await with { live in
            for (method, path, mobile, expected) in [
                ("GET", "/sdk/evalx/none/contexts/\(Self.context)", "demo", 404), ("GET", "/ping/none", "demo", 404),
                ("GET", "/eval/none/\(Self.context)", "demo", 404), ("GET", "/mping", "none", 401),
                ("GET", "/msdk/evalx/contexts/\(Self.context)", "none", 401), ("POST", "/mobile", "none", 401),
                ("GET", "/sdk/evalx/demo/contexts/e30", "demo", 400), ("GET", "/eval/demo/e30", "demo", 400),
                ("GET", "/meval/*", "demo", 400), ("POST", "/events/bulk/none", "demo", 404),
            ] {
                let answer = try ask(live, method, path, ["Authorization: \(mobile)"])
                #expect(status(answer) == expected, "\(path)")
                #expect(answer.contains("\r\n\r\n{\"message\":\""), "\(answer)")
            }
        }
        try await LiveEdge.with(engine: true) { live in
            let answer = try ask(live, "GET", "/ping/demo")
            #expect(status(answer) == 404, "it is off by default")
        }
    }

    @Test func aKeyIsPartOfTheEnvironmentAndIsNeverLogged() async throws {
        let grants = [Grant(actions: [.watch, .fetch])]
        var random = SystemRandomNumberGenerator()
        let keys = APIKey.Kind.allCases.map { APIKey($0, using: &random) }
        let authorizer = Authorizer()
        authorizer.configure(
            keys: keys.map { AccessKey(id: $0.id, kind: $0.kind, grants: grants, secrets: [.init($0.digest)]) },
            plain: [], anonymous: [])
        try await with({ $0.access = EdgeAccess(.enforce, authorizer) }) { live in
            let key = keys[0].text
            for (environment, expected) in [
                ("demo~\(key)", 200), (key, 200), ("demo", 401), ("demo~x", 401), ("demo~\(keys[1].text)", 401),
            ] {
                let answer = try ask(live, "GET", "/sdk/evalx/\(environment)/contexts/\(Self.context)")
                #expect(status(answer) == expected, "\(environment): \(answer)")
            }
            for (header, expected) in [("demo~\(keys[1].text)", 200), (key, 200), ("demo", 401)] {
                let answer = try ask(
                    live, "GET", "/msdk/evalx/contexts/\(Self.context)", ["Authorization: \(header)"])
                #expect(status(answer) == expected, "\(header)")
            }
            let client = live.client()
            client.get("/eval/demo~\(key)/\(Self.context)")
            try client.read(untilText: Self.ping)
        }
    }
}
