import StalecastSources
import StalecastWire
import Synchronization
import StalecastTestServers
import Testing

@Suite struct FirebaseSourceTests {
    /// A project's versions behind the two paths that are asked; `lag` is how far full templates stay behind.
    private final class Project: Sendable {
        struct State {
            var newest = 0
            var lag = 0
            var historyLag = 0
            var token = "token-1"
            var fault: OriginServer.Reply?
        }
        let state = Mutex(State())

        func answer(_ request: OriginServer.Request) -> OriginServer.Reply {
            let state = state.withLock { $0 }
            if let fault = state.fault { return fault }
            guard request.headers["authorization"] == "Bearer \(state.token)" else {
                return .status(401, ["Content-Type: application/json"], #"{"error":{"code":401}}"#)
            }
            if request.target == "/v1/projects/origin/remoteConfig:listVersions?pageSize=1" {
                return .json(state.newest == 0 ? "{}" : #"{"versions":[\#(Self.version(state.newest))]}"#)
            }
            let asked = request.target.split(separator: "=").last.flatMap { Int($0) }
            let number = asked ?? state.newest - state.lag
            guard request.target.hasPrefix("/v1/projects/origin/remoteConfig"),
                number <= state.newest - state.historyLag
            else { return .status(404) }
            return .json(
                OriginFixture.template("v\(number)", more: #","version":\#(Self.version(number))"#),
                ["ETag: etag-1-\(number)"])
        }

        static func version(_ number: Int) -> String {
            #"{"versionNumber":"\#(number)","updateTime":"2026-08-20T14:05:09.543720Z","updateOrigin":"CONSOLE","#
                + #""updateType":"ROLLBACK","rollbackSource":"1","updateUser":{"email":"ann@example.test"}}"#
        }
    }

    private static func polling(
        newest: Int = 0, _ body: (FirebaseSource, Project, OriginServer) async throws -> Void
    ) async throws {
        let project = Project()
        project.state.withLock { $0.newest = newest }
        try await OriginFixture.with { fixture in
            try await OriginServer.serving(project.answer) { server in
                let access = try fixture.access(
                    .account(
                        token: { project.state.withLock { $0.token } },
                        refused: { project.state.withLock { $0.token = "token-2" } }))
                let source = try FirebaseSource(
                    base: server.url, project: "origin", namespace: .firebase, access: access)
                try await body(source, project, server)
            }
        }
    }

    @Test func readsTheTemplateOnlyWhenThereIsANewVersion() async throws {
        try await Self.polling(newest: 3) { source, project, server in
            await source.shows("v3")
            #expect(server.requests.count == 2)
            #expect(await source.poll() == .unchanged)
            #expect(await source.poll() == .unchanged)
            #expect(server.requests.count == 4)
            project.state.withLock { $0.newest = 5 }
            await source.shows("v5")
            #expect(server.requests.count == 6)
        }
    }

    @Test func carriesWhatTheOriginSaysOfItsVersion() async throws {
        try await Self.polling(newest: 7) { source, _, _ in
            guard case .seen(let sight) = await source.poll() else {
                Issue.record("nothing was seen")
                return
            }
            #expect(sight.content.version == 7)
            #expect(sight.etag == "etag-1-7")
            let time = try #require(Timestamp("2026-08-20T14:05:09.543720Z"))
            #expect(
                sight.metadata
                    == VersionMetadata(
                        number: 7, updateTime: time,
                        updateUser: UpdateUser(email: "ann@example.test"), updateOrigin: .console,
                        updateType: .rollback,
                        rollbackSource: 1))
        }
    }

    @Test func aProjectWithoutVersionsIsUnchanged() async throws {
        try await Self.polling { source, project, _ in
            #expect(await source.poll() == .unchanged)
            project.state.withLock { $0.newest = 1 }
            await source.shows("v1")
        }
    }

    @Test func aReplicaThatLagsIsAskedForTheVersionItself() async throws {
        try await Self.polling(newest: 4) { source, project, server in
            project.state.withLock { $0.lag = 1 }
            await source.shows("v4")
            #expect(server.requests.map(\.target).last == "/v1/projects/origin/remoteConfig?versionNumber=4")
        }
    }

    @Test func aVersionThatCannotBeReadYetIsPolledForAgainSoon() async throws {
        try await Self.polling(newest: 4) { source, project, _ in
            project.state.withLock { ($0.lag, $0.historyLag) = (1, 1) }
            let problem = await source.poll().problem
            #expect(problem?.reason == .notFound)
            #expect(problem?.retryAfter == .milliseconds(250))
            project.state.withLock { ($0.lag, $0.historyLag) = (0, 0) }
            await source.shows("v4")
        }
    }

    @Test func anExpiredTokenIsRenewedOnce() async throws {
        try await Self.polling(newest: 2) { source, project, server in
            await source.shows("v2")
            project.state.withLock { $0.newest = 3 }
            let count = server.requests.count
            project.state.withLock { $0.fault = .status(401) }
            #expect(await source.poll().problem?.reason == .unauthorized)
            #expect(server.requests.count == count + 2, "asked again once, with the fresh token")
            project.state.withLock { $0.fault = nil }
            await source.shows("v3")
        }
    }

    @Test(arguments: [
        #"{"versions":[{}]}"#, #"{"versions":[7]}"#, #"{"versions":[{"versionNumber":"x"}]}"#, "[]", "{", "",
        "<html></html>",
    ])
    func aListThatMakesNoSenseIsAProblem(body: String) async throws {
        try await Self.polling(newest: 1) { source, project, _ in
            project.state.withLock { $0.fault = .json(body) }
            #expect(await source.poll().problem?.reason == .invalidContent)
        }
    }

    @Test func aTemplateThatIsNotValidIsReportedWithoutReadingItEveryTime() async throws {
        let isBad = Mutex(true)
        try await OriginFixture.with { fixture in
            try await OriginServer.serving({ request in
                let version = Project.version(isBad.withLock { $0 } ? 1 : 2)
                if request.target.contains("listVersions") { return .json(#"{"versions":[\#(version)]}"#) }
                return isBad.withLock { $0 }
                    ? .json(#"{"parameters":7,"version":\#(version)}"#)
                    : .json(OriginFixture.template("good", more: #","version":\#(version)"#))
            }) { server in
                let source = try FirebaseSource(
                    base: server.url, project: "origin", namespace: .firebase, access: fixture.access())
                for _ in 0..<3 { #expect(await source.poll().problem?.reason == .invalidContent) }
                #expect(server.requests.count == 4)
                isBad.withLock { $0 = false }
                await source.shows("good")
            }
        }
    }

    @Test func otherNamespacesHaveTheirOwnPath() async throws {
        try await OriginFixture.with { fixture in
            try await OriginServer.serving({ _ in .json("{}") }) { server in
                let source = try FirebaseSource(
                    base: server.url, project: "123", namespace: .firebaseServer, access: fixture.access())
                #expect(await source.poll() == .unchanged)
                #expect(
                    server.requests.first?.target
                        == "/v1/projects/123/namespaces/firebase-server/remoteConfig:listVersions?pageSize=1")
            }
        }
    }

    @Test func everyListedVersionIsReadPageAfterPageOldestFirst() async throws {
        let pages = [
            "?pageSize=300": #"{"versions":[{"versionNumber":"3"},{"versionNumber":"2"}],"nextPageToken":"a/b="}"#,
            "?pageSize=300&pageToken=a%2Fb%3D": #"{"versions":[{"versionNumber":"1"}],"nextPageToken":""}"#,
        ]
        let answer = { @Sendable (request: OriginServer.Request) -> OriginServer.Reply in
            let target = request.target.replacing("/v1/projects/origin/remoteConfig:listVersions", with: "")
            return pages[target].map { .json($0) } ?? .status(404)
        }
        try await OriginFixture.with { fixture in
            try await OriginServer.serving(answer) { server in
                let templates = try FirebaseTemplates(
                    base: server.url, project: "origin", namespace: .firebase, access: try fixture.access(.none))
                #expect(try await templates.versions().map(\.number) == [1, 2, 3])
            }
        }
    }

    @Test func aListThatNeverEndsIsAProblem() async throws {
        let answer = { @Sendable (_: OriginServer.Request) -> OriginServer.Reply in
            .json(#"{"versions":[{"versionNumber":"1"}],"nextPageToken":"x"}"#)
        }
        try await OriginFixture.with { fixture in
            try await OriginServer.serving(answer) { server in
                let templates = try FirebaseTemplates(
                    base: server.url, project: "origin", namespace: .firebase, access: try fixture.access(.none))
                await #expect(throws: OriginProblem.self) { try await templates.versions() }
            }
        }
    }
}
