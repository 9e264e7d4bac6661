import StalecastSources
import StalecastWire
import Synchronization
import Testing

@Suite struct TriggerServiceTests {
    private static let firstToken = "first-0123456789abcdef01"
    private static let otherToken = "other-0123456789abcdef01"
    private static let now = Timestamp(microseconds: 1_614_265_330_000_000)

    /// Two scopes of `demo` (the first with a token and a key, at version 5) and one of `shop` with a token.
    private final class Fixture: Sendable {
        let service: TriggerService
        let sink = Sink()

        init() throws {
            let sink = sink
            let good = SignedPost.Key { post, _ in post.signatures == "v1,good" }
            service = TriggerService(
                targets: [
                    TriggerService.Target(
                        scope: Scope(project: .demo, namespace: .firebase),
                        projectNames: ["demo", "origin-project", "123"],
                        tokens: [try TriggerToken(firstToken)], keys: [good], knownVersion: { 5 },
                        poll: { sink.append("client", $0) }),
                    TriggerService.Target(
                        scope: Scope(project: .demo, namespace: .firebaseServer), projectNames: ["demo"],
                        knownVersion: { nil }, poll: { sink.append("server", $0) }),
                    TriggerService.Target(
                        scope: Scope(project: try ProjectID("shop"), namespace: .firebase), projectNames: ["shop"],
                        tokens: [try TriggerToken(otherToken)], knownVersion: { nil },
                        poll: { sink.append("shop", $0) }),
                ], now: { now })
        }

        final class Sink: Sendable {
            private let all = Mutex<[String]>([])
            func append(_ name: String, _ version: VersionNumber?) {
                all.withLock { $0.append("\(name) \(version.map(String.init) ?? "-")") }
            }
            var lines: [String] { all.withLock { $0 } }
        }
    }

    private static func post(
        _ headers: [String: String] = [:], project: String? = "demo", token: String? = nil, namespace: String? = nil,
        isOperator: Bool = false
    ) throws -> TriggerService.Post {
        TriggerService.Post(
            project: try project.map { try ProjectID($0) }, headers: headers, token: token, namespace: namespace,
            isOperator: isOperator)
    }

    private static func results(_ outcome: TriggerService.Outcome) -> [TriggerService.Receipt.Result]? {
        guard case .taken(let receipts) = outcome else { return nil }
        return receipts.map(\.result)
    }

    private static let json = ["content-type": "application/json"]

    @Test func anOperatorsTriggerPollsAllSourcesOfAProject() async throws {
        let fixture = try Fixture()
        #expect(await Self.results(fixture.service.take(try Self.post(isOperator: true), body: [])) == [.polling])
        #expect(fixture.sink.lines == ["client -", "server -"])
    }

    @Test func theNamespaceNarrows() async throws {
        let fixture = try Fixture()
        _ = await fixture.service.take(try Self.post(namespace: "firebase-server", isOperator: true), body: [])
        let body = Array(#"{"namespace":"firebase","versionNumber":9}"#.utf8)
        _ = await fixture.service.take(try Self.post(Self.json, isOperator: true), body: body)
        #expect(fixture.sink.lines == ["server -", "client 9"])
    }

    @Test func theOperatorIsToldWhatThereIs() async throws {
        let fixture = try Fixture()
        let outcome = await fixture.service.take(try Self.post(namespace: "other", isOperator: true), body: [])
        guard case .notFound(let sentence) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(sentence.contains("demo/firebase, demo/firebase-server"))
        #expect(fixture.sink.lines.isEmpty)
    }

    @Test func aTokenReachesItsOwnScopeOnly() async throws {
        let fixture = try Fixture()
        for post in [
            try Self.post(token: Self.firstToken), try Self.post(["authorization": "Bearer \(Self.firstToken)"]),
        ] {
            #expect(fixture.service.admits(post))
            #expect(await Self.results(fixture.service.take(post, body: [])) == [.polling])
        }
        #expect(fixture.sink.lines == ["client -", "client -"])
        #expect(
            await fixture.service.take(try Self.post(project: "shop", token: Self.firstToken), body: [])
                == .unauthenticated)
        #expect(
            await fixture.service.take(try Self.post(token: Self.firstToken, namespace: "firebase-server"), body: [])
                == .unauthenticated)
        #expect(fixture.sink.lines.count == 2)
    }

    @Test func aStrangerLearnsNothing() async throws {
        let fixture = try Fixture()
        for post in [
            try Self.post(), try Self.post(project: "shop"), try Self.post(project: nil), try Self.post(token: ""),
            try Self.post(token: "wrong-0123456789abcdef01"),
            try Self.post(["authorization": "Basic \(Self.firstToken)"]),
            try Self.post(["authorization": Self.firstToken]),
        ] {
            #expect(!fixture.service.admits(post))
            #expect(await fixture.service.take(post, body: Array("{".utf8)) == .unauthenticated)
        }
        #expect(fixture.sink.lines.isEmpty)
        #expect(fixture.service.figures.unauthenticated == 14)
    }

    private static func signed(
        _ signature: String = "v1,good", id: String = "msg_1", timestamp: String = "1614265330"
    ) -> [String: String] {
        ["webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signature]
    }

    @Test func aSignatureOpensItsScopeAndARetryIsADuplicate() async throws {
        let fixture = try Fixture()
        let post = try Self.post(Self.signed())
        #expect(fixture.service.admits(post))
        #expect(await Self.results(fixture.service.take(post, body: [])) == [.polling])
        #expect(await Self.results(fixture.service.take(post, body: [])) == [.duplicate])
        #expect(fixture.sink.lines == ["client -"])
    }

    @Test func aWrongSignatureIsAStrangerEverywhere() async throws {
        let fixture = try Fixture()
        for project in ["demo", "shop", nil] {
            let post = try Self.post(Self.signed("v1,bad"), project: project)
            #expect(fixture.service.admits(post), "the body is needed to judge it")
            #expect(await fixture.service.take(post, body: []) == .unauthenticated)
        }
        #expect(!fixture.service.admits(try Self.post(Self.signed(timestamp: "1614260000"))))
        #expect(
            await fixture.service.take(try Self.post(Self.signed(timestamp: "1614260000")), body: [])
                == .unauthenticated)
    }

    @Test func aKnownVersionCausesNoPoll() async throws {
        let fixture = try Fixture()
        let take = { (version: Int) in
            await fixture.service.take(
                try Self.post(Self.json, token: Self.firstToken), body: Array(#"{"versionNumber":\#(version)}"#.utf8))
        }
        #expect(Self.results(try await take(5)) == [.known])
        #expect(Self.results(try await take(4)) == [.known])
        #expect(Self.results(try await take(6)) == [.polling])
        #expect(fixture.sink.lines == ["client 6"])
    }

    @Test func anEventAboutAnotherProjectIsIgnored() async throws {
        let fixture = try Fixture()
        let take = { (project: String) in
            let headers = [
                "ce-specversion": "1.0", "ce-id": project, "ce-source": "//x/projects/\(project)",
                "ce-type": "google.firebase.remoteconfig.remoteConfig.v1.updated",
            ]
            return await Self.results(fixture.service.take(try Self.post(headers, isOperator: true), body: []))
        }
        #expect(try await take("origin-project") == [.polling])
        #expect(try await take("somebody-else") == [.ignored])
        #expect(fixture.sink.lines == ["client -"])
    }

    @Test func anEventCausesOnePollOfEachScope() async throws {
        let fixture = try Fixture()
        let headers = ["idempotency-key": "k-1"]
        let ofToken = try Self.post(headers, token: Self.firstToken)
        #expect(await Self.results(fixture.service.take(ofToken, body: [])) == [.polling])
        #expect(
            await Self.results(fixture.service.take(try Self.post(headers, isOperator: true), body: [])) == [.polling])
        #expect(
            await Self.results(fixture.service.take(try Self.post(headers, isOperator: true), body: [])) == [.duplicate]
        )
        #expect(fixture.sink.lines == ["client -", "server -"])
    }

    @Test func whatIsNoEventIsToldToThoseWhoMayKnow() async throws {
        let fixture = try Fixture()
        let post = try Self.post(Self.json, token: Self.firstToken)
        guard case .malformed(let problem) = await fixture.service.take(post, body: Array("{".utf8)) else {
            Issue.record("a broken body was taken")
            return
        }
        #expect(problem.status == 400)
        #expect(fixture.service.figures.malformed == 1)
    }

    @Test func figuresCountEvents() async throws {
        let fixture = try Fixture()
        let batch = ["content-type": "application/cloudevents-batch+json"]
        let event = #"{"specversion":"1.0","id":"1","source":"s","type":"t"}"#
        let outcome = await fixture.service.take(
            try Self.post(batch, isOperator: true), body: Array("[\(event),\(event)]".utf8))
        #expect(Self.results(outcome) == [.polling, .duplicate])
        #expect(fixture.service.figures.events == [.polling: 1, .duplicate: 1])
    }

    @Test func anAnswerTellsTheOutcomeOfItsEvent() async throws {
        let fixture = try Fixture()
        let outcome = await fixture.service.take(
            try Self.post(["idempotency-key": "k"], token: Self.firstToken), body: [])
        guard case .taken(let receipts) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(
            receipts.map { $0.json.text() } == [
                #"{"form":"plain","id":"k","result":"looking","scopes":["demo/firebase"]}"#
            ])
    }
}
