import CLinux
import StalecastEdge
import StalecastHub
import StalecastTemplate
import StalecastWire
import Testing

/// Stages of a release on every path that a client takes, on both halves of Edge.
@Suite(.serialized, .timeLimit(.minutes(5))) struct ReleaseTests {
    private static let cut = ReleaseCut(LiveEdge.scope, 2, bounds: [2000, 10_000])
    private static let ids = (0..<100).map { "client-\($0)" }
    /// Two clients of the first stage, and two of the last one.
    private static let early = Array(ids.filter { cut.stage(of: ClientKey(id: $0)) == 0 }.prefix(2))
    private static let late = Array(ids.filter { cut.stage(of: ClientKey(id: $0)) == 1 }.prefix(2))

    private func change(_ version: VersionNumber, at sequence: CommitSequence) -> TemplateChange {
        TemplateChange(
            scope: LiveEdge.scope, sequence: sequence,
            metadata: VersionMetadata(number: version, updateTime: .now()), etag: "etag-1-\(version)",
            changedKeys: ["a"])
    }

    private func begin(_ live: LiveEdge) {
        live.served.stage(.of(["a": "2"]), change(2, at: 2), Self.cut, stages: 1)
        live.hub.split(LiveEdge.scope, by: Self.cut)
        live.hub.announce(
            change(2, at: 2), to: ReleaseAudience(stages: 0..<1, isWhole: false), at: stalecast_monotonic_ns())
    }

    private func finish(_ live: LiveEdge) {
        live.served.cover(LiveEdge.scope, stages: 2)
        live.hub.announce(
            change(2, at: 3), to: ReleaseAudience(stages: 1..<2, isWhole: true), at: stalecast_monotonic_ns())
    }

    private func with(engine: Bool, _ body: (LiveEdge) async throws -> Void) async throws {
        try await LiveEdge.with(engine: engine, manyTopics: 1) { live in
            live.served.install(.of(["a": "1"]), change(1, at: 1))
            live.publish()
            try await body(live)
        }
    }

    /// Answer to one request on a connection of its own.
    private func ask(_ live: LiveEdge, _ target: String) throws -> String {
        let client = live.client()
        client.get(target, headers: ["Connection: close"])
        return try client.readToEnd()
    }

    private func fetch(_ live: LiveEdge, _ id: String) throws -> String {
        let client = live.client()
        let body = #"{"appId":"1:1:web:a","appInstanceId":"\#(id)","appInstanceIdToken":"t"}"#
        client.send(
            """
            POST /v1/projects/demo/namespaces/firebase:fetch HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
            Content-Length: \(body.utf8.count)\r\n\r\n\(body)
            """)
        return try client.readToEnd()
    }

    private func firebase(_ live: LiveEdge, _ id: String) throws -> RawClient {
        try live.invalidations(
            body:
                #"{"project":"123456789012","namespace":"firebase","lastKnownVersionNumber":"1","appInstanceId":"\#(id)"}"#
        )
    }

    private static let second = #""latestTemplateVersionNumber":"2""#

    /// Clients come before the split, so that they move.
    @Test(arguments: [true, false])
    func streamsPollsStateAndFetchesAgreeForEachClient(engine: Bool) async throws {
        try await with(engine: engine) { live in
            let early = try live.stream("topic=PUSH_RC&client=\(Self.early[0])")
            let several = try live.stream("topic=PUSH_RC&topic=t0&client=\(Self.early[1])")
            let late = try live.stream("topic=PUSH_RC&client=\(Self.late[0])")
            let anonymous = try live.stream()
            let (earlyApp, lateApp) = (try firebase(live, Self.early[1]), try firebase(live, Self.late[1]))
            let poll = live.client()
            poll.get("/v1/poll?topic=PUSH_RC&client=\(Self.late[1])&cursor=\(live.cursor(1))&wait=600s")
            try await live.wait { $0.streams == 6 && $0.polls == 1 }
            begin(live)
            for told in [early, several, earlyApp] { try told.read(untilText: Self.second) }
            for id in Self.early {
                #expect(try fetch(live, id).contains(#""a":"2""#))
                #expect(try ask(live, "/v1/state?topic=PUSH_RC&client=\(id)").contains(Self.second))
                let owed = "/v1/poll?topic=PUSH_RC&client=\(id)&cursor=\(live.cursor(1))&wait=0s"
                #expect(try ask(live, owed).contains(Self.second))
            }
            for id in Self.late {
                #expect(try fetch(live, id).contains(#""a":"1""#))
                #expect(try !ask(live, "/v1/state?topic=PUSH_RC&client=\(id)").contains(Self.second))
                let owed = "/v1/poll?topic=PUSH_RC&client=\(id)&cursor=\(live.cursor(1))&wait=0s"
                #expect(try !ask(live, owed).contains(Self.second))
            }
            // A client that comes now with an old cursor is told by its own stage.
            let resumed = try live.stream("topic=PUSH_RC&client=\(Self.early[1])&cursor=\(live.cursor(1))")
            #expect(resumed.text.contains(Self.second))
            let waiting = try live.stream("topic=PUSH_RC&client=\(Self.late[1])&cursor=\(live.cursor(1))")
            #expect(!waiting.text.contains(Self.second))
            for silent in [late, anonymous, lateApp, poll] { #expect(!silent.text.contains(Self.second)) }
            finish(live)
            for told in [late, anonymous, lateApp, poll, waiting] { try told.read(untilText: Self.second) }
            #expect(try fetch(live, Self.late[0]).contains(#""a":"2""#))
            // A cursor from between the stages is behind for the last one only.
            let between = try live.stream("topic=PUSH_RC&client=\(Self.late[0])&cursor=\(live.cursor(2))")
            #expect(between.text.contains(Self.second))
            let after = try live.stream("topic=PUSH_RC&client=\(Self.early[0])&cursor=\(live.cursor(2))")
            #expect(!after.text.contains(Self.second))
        }
    }

    @Test(arguments: [true, false])
    func aVersionThatTakesAReleaseBackReachesTheToldAlone(engine: Bool) async throws {
        try await with(engine: engine) { live in
            let early = try live.stream("topic=PUSH_RC&client=\(Self.early[0])")
            let late = try live.stream("topic=PUSH_RC&client=\(Self.late[0])")
            begin(live)
            try early.read(untilText: Self.second)
            live.served.install(.of(["a": "1"]), change(3, at: 3))
            live.hub.announce(
                change(3, at: 3), to: ReleaseAudience(stages: 0..<1, isWhole: true), at: stalecast_monotonic_ns())
            try early.read(untilText: #""latestTemplateVersionNumber":"3""#)
            live.hub.announce(change(4, at: 4), at: stalecast_monotonic_ns())
            try late.read(untilText: #""latestTemplateVersionNumber":"4""#)
            #expect(!late.text.contains(#""latestTemplateVersionNumber":"3""#))
            #expect(late.text.contains(#""sinceTemplateVersionNumber":"1""#))
        }
    }

    @Test func anInstallationOfTheEarlyStageIsFoundInEveryFormOfABody() throws {
        let served = ServedTemplates([
            ServedTemplates.Project(id: LiveEdge.scope.project, number: 4711, namespaces: [.firebase])
        ])
        served.install(.of(["a": "1"]), .fetchable(1))
        let scope = try served.scope("demo", "firebase")
        func version(_ body: String, address: UInt64? = 7) throws -> VersionNumber {
            try scope.answer(Array(body.utf8), ifNoneMatch: nil, maxBodyBytes: 65_536, address: address).version
        }
        #expect(try FetchBodies.all.allSatisfy { try version($0) == 1 })
        let all = ReleaseCut(LiveEdge.scope, 2, bounds: [5000, 10_000])
        served.stage(.of(["a": "2"]), .fetchable(2), all, stages: 1)
        let instances = ["c", "d", "e", "f"].map { "\($0)AbCdEfGhIjKlMnOpQrStU" }
        for (body, id) in zip(FetchBodies.all, instances) {
            #expect(try version(body) == (all.stage(of: ClientKey(id: id)) == 0 ? 2 : 1))
            #expect(try version(body, address: nil) == 2, "a canary gets the newest")
        }
        // An id that is none counts as no id.
        let odd = FetchBodies.js.replacing("cAbCdEfGhIjKlMnOpQrStU", with: "an id")
        #expect(try version(odd) == 1)
        served.cover(LiveEdge.scope, stages: 2)
        #expect(try FetchBodies.all.allSatisfy { try version($0) == 2 })
    }
}
