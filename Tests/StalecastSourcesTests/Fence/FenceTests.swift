import StalecastOutbound
import StalecastSources
import StalecastTemplate
import StalecastWire
import Synchronization
import StalecastTestServers
import Testing

@Suite struct FenceTests {
    /// - Parameters:
    ///   - wait: nil: as long as it takes; the clock stands still.
    ///   - step: time that a probe takes by the clock, however long it really takes.
    private static func outcome(
        _ proof: Fence.Settings.Proof, wait: Duration? = nil, version: VersionNumber? = 7, etag: String? = nil,
        value: String = "v", before: String? = nil, takes step: Duration? = nil,
        _ answer: @escaping @Sendable (_ probe: Int, OriginServer.Request) -> OriginServer.Reply
    ) async throws -> (Fence.Outcome, probes: Int) {
        let probes = Mutex(0)
        return try await OriginFixture.with { fixture in
            try await OriginServer.serving({ request in
                answer(
                    probes.withLock {
                        $0 += 1
                        return $0
                    }, request)
            }) { server in
                var settings = Fence.Settings(url: try OutboundURL(server.url + "/public"), proof: proof)
                settings.wait = wait ?? .seconds(60)
                settings.interval = .milliseconds(5)
                let began = ContinuousClock.now
                let fence = Fence(settings, access: try fixture.access(), kind: .client) {
                    if let step { return began + step * probes.withLock { $0 } }
                    return wait == nil ? began : .now
                }
                let template = Self.template(value)
                let outcome = await fence.wait(
                    for: Fence.Goal(
                        version: version, etag: etag, content: OriginContent(template: template, version: version),
                        before: before.map(Self.template)))
                return (outcome, probes.withLock { $0 })
            }
        }
    }

    private static func template(_ value: String) -> Template {
        Template(parameters: ["greeting": TemplateParameter(defaultValue: .value(value))])
    }

    private static func hasPassed(_ outcome: Fence.Outcome) -> Bool {
        if case .passed = outcome { true } else { false }
    }

    private static func problem(_ outcome: Fence.Outcome) -> String? {
        if case .timeout(let problem) = outcome { problem } else { nil }
    }

    @Test func passesWhenThePublicAnswerShowsTheVersion() async throws {
        let (outcome, probes) = try await Self.outcome(.pointer(try JSONPointer("/version"))) { probe, _ in
            .json(#"{"version":"\#(probe < 4 ? 6 : 7)"}"#)
        }
        #expect(Self.hasPassed(outcome))
        #expect(probes == 4)
    }

    @Test func aNewerVersionPassesToo() async throws {
        let (outcome, probes) = try await Self.outcome(.pointer(try JSONPointer("/version"))) { _, _ in
            .json(#"{"version":12}"#)
        }
        #expect(Self.hasPassed(outcome))
        #expect(probes == 1)
    }

    @Test func theWaitIsBoundedAndSaysWhatWasSeen() async throws {
        let (outcome, probes) = try await Self.outcome(
            .pointer(try JSONPointer("/version")), wait: .seconds(60), takes: .seconds(20)
        ) { _, _ in .json(#"{"version":6}"#) }
        #expect(Self.problem(outcome) == "the public answer shows version 6")
        #expect(probes == 3)
    }

    @Test(arguments: [
        OriginServer.Reply.status(500), .json("{"), .json("{}"), .raw(""),
        OriginServer.Reply(bytes: [], hangs: true), .status(302, ["Location: /elsewhere"]),
    ])
    func aProbeThatFailsIsTriedAgainAndDoesNotHoldForEver(reply: OriginServer.Reply) async throws {
        let proof = Fence.Settings.Proof.pointer(try JSONPointer("/version"))
        let (outcome, _) = try await Self.outcome(proof, wait: .milliseconds(200)) { _, _ in reply }
        #expect(Self.problem(outcome)?.isEmpty == false)
        guard !reply.hangs else { return }
        let (other, _) = try await Self.outcome(proof) { probe, _ in probe < 3 ? reply : .json(#"{"version":7}"#) }
        #expect(Self.hasPassed(other))
    }

    @Test(arguments: ["etag-123456789012-7", "\"etag-123456789012-7\"", "W/\"8\"", "v9"])
    func anETagShowsTheVersionItEndsWith(etag: String) async throws {
        let (outcome, _) = try await Self.outcome(.etag) { probe, _ in
            .json("{}", ["ETag: \(probe == 1 ? "etag-123456789012-6" : etag)"])
        }
        #expect(Self.hasPassed(outcome))
    }

    @Test func withoutNumbersTheETagMustBeTheOneTheSourceSaw() async throws {
        let (outcome, probes) = try await Self.outcome(.etag, version: nil, etag: "\"abc\"") { probe, _ in
            .json("{}", ["ETag: \(probe < 3 ? "\"old\"" : "W/\"abc\"")"])
        }
        #expect(Self.hasPassed(outcome))
        #expect(probes == 3)
    }

    @Test func aFirebaseFetchShowsItsTemplateVersion() async throws {
        let (outcome, probes) = try await Self.outcome(.fetch(apiKey: "key-1", appID: "1:2:web:3")) { probe, request in
            guard request.method == "POST", request.headers["x-goog-api-key"] == "key-1",
                request.body.contains("appInstanceId")
            else { return .status(400) }
            return probe == 1
                ? .json(#"{"state":"NO_TEMPLATE"}"#)
                : .json(#"{"state":"UPDATE","entries":{},"templateVersion":"\#(probe + 4)"}"#)
        }
        #expect(Self.hasPassed(outcome))
        #expect(probes == 3)
    }

    @Test func theSameContentPassesWhereThereAreNoNumbers() async throws {
        let (outcome, probes) = try await Self.outcome(.content(ContentReading()), version: nil, value: "new") {
            probe, _ in
            .json(OriginFixture.template(probe < 3 ? "old" : "new"))
        }
        #expect(Self.hasPassed(outcome))
        #expect(probes == 3)
    }

    /// Shows what was published right after the goal: the goal itself will never be there.
    @Test func aGoalThatWasOvertakenIsNotWaitedFor() async throws {
        let (byTag, tags) = try await Self.outcome(.etag, version: nil, etag: "\"goal\"") { probe, _ in
            .json("{}", ["ETag: \(probe < 3 ? "\"old\"" : "\"newer\"")"])
        }
        #expect(Self.hasPassed(byTag) && tags == 3)
        let content = Fence.Settings.Proof.content(ContentReading())
        let (byContent, probes) = try await Self.outcome(content, version: nil, value: "goal") { probe, _ in
            .json(OriginFixture.template(probe < 3 ? "old" : "newer"))
        }
        #expect(Self.hasPassed(byContent) && probes == 3)
        let (atOnce, first) = try await Self.outcome(content, version: nil, value: "goal", before: "old") { _, _ in
            .json(OriginFixture.template("newer"))
        }
        #expect(Self.hasPassed(atOnce) && first == 1)
        let (waiting, _) = try await Self.outcome(
            content, wait: .seconds(60), version: nil, value: "goal", before: "old", takes: .seconds(20)
        ) { _, _ in .json(OriginFixture.template("old")) }
        #expect(Self.problem(waiting) == "the public answer has other content")
    }

    @Test func cancellingEndsTheWait() async throws {
        try await OriginFixture.with { fixture in
            try await OriginServer.serving({ _ in OriginServer.Reply(bytes: [], hangs: true) }) { server in
                let settings = Fence.Settings(url: try OutboundURL(server.url), proof: .etag)
                let fence = Fence(settings, access: try fixture.access(), kind: .client)
                let goal = Fence.Goal(version: 1, etag: nil, content: OriginContent(template: .empty, version: 1))
                let waiting = Task { await fence.wait(for: goal) }
                waiting.cancel()
                #expect(!Self.hasPassed(await waiting.value))
            }
        }
    }

    /// An origin without numbers: an ETag says nothing of the template that was current before.
    @Test func anETagThatIsStillTheOldOneDoesNotPass() async throws {
        let (outcome, probes) = try await Self.outcome(.etag, version: nil, etag: "\"e2\"", value: "new", before: "old")
        { probe, _ in
            .status(200, ["ETag: \"\(probe < 4 ? "e1" : "e2")\""])
        }
        #expect(Self.hasPassed(outcome))
        #expect(probes == 4)
    }
}
