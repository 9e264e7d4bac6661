import StalecastSources
import StalecastTestServers
import StalecastWire
import Synchronization
import Testing

@Suite struct InvalidationStreamTests {
    private static let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"

    private static func chunked(_ pieces: String...) -> String {
        pieces.map { "\(String($0.utf8.count, radix: 16))\r\n\($0)\r\n" }.joined()
    }

    /// Runs a stream against a scripted server until it told of `count` versions.
    private static func heard(
        _ count: Int, from replies: [OriginServer.Reply], known: VersionNumber = 0,
        _ body: (InvalidationStream, OriginServer) async throws -> Void = { _, _ in }
    ) async throws -> [VersionNumber?] {
        let script = Script(replies)
        let (versions, news) = AsyncStream.makeStream(of: VersionNumber?.self)
        return try await OriginFixture.with { fixture in
            try await OriginServer.serving({ _ in script.next() }) { server in
                var settings = try InvalidationStream.Settings(
                    base: server.url, project: "123", namespace: .firebase, apiKey: "key-1", appID: "1:123:web:abc")
                settings.backoff.first = .milliseconds(20)
                settings.backoff.afterEnd = .milliseconds(20)
                let stream = InvalidationStream(
                    settings, access: try fixture.access(), known: { known }, onVersion: { news.yield($0) })
                let running = Task { await stream.run() }
                var heard: [VersionNumber?] = []
                for await version in versions {
                    heard.append(version)
                    if heard.count == count { break }
                }
                try await body(stream, server)
                running.cancel()
                await running.value
                return heard
            }
        }
    }

    @Test(.timeLimit(.minutes(5))) func tellsOfEveryOtherVersionAndOfOpening() async throws {
        let stream = OriginServer.Reply(
            bytes: Array(
                (Self.head
                    + Self.chunked(
                        "\n", "{\"latestTemplateVersionNumber\":\"7\"}\n", "{\"latestTemplateVersionNumber\":\"7\"}\n",
                        "{\"latestTempl", "ateVersionNumber\":\"9\"}\n", "{\"latestTemplateVersionNumber\":\"8\"}\n",
                        "{\"latestTemplateVersionNumber\":\"9223372036854775807\"}\n"))
                    .utf8),
            hangs: true)
        let heard = try await Self.heard(5, from: [stream], known: 6) { stream, server in
            #expect(stream.isOpen)
            #expect(stream.problem == nil)
            let request = try #require(server.requests.first)
            #expect(request.method == "POST")
            #expect(request.target == "/v1/projects/123/namespaces/firebase:streamFetchInvalidations")
            #expect(request.headers["x-goog-api-key"] == "key-1")
            let body = try JSONValue.parse(Array(request.body.utf8))
            #expect(body["lastKnownVersionNumber"] == "6")
            #expect(body["project"] == "123")
        }
        #expect(
            heard == [nil, 7, 9, 8, nil], "an origin that began anew counts from 1; an absurd number promises nothing")
    }

    @Test(.timeLimit(.minutes(5))) func comesBackAfterAnEndAndSaysWhatItKnows() async throws {
        let first = OriginServer.Reply.raw(
            Self.head + Self.chunked("{\"latestTemplateVersionNumber\":\"7\"}\n") + "0\r\n\r\n", closes: false)
        let second = OriginServer.Reply(
            bytes: Array((Self.head + Self.chunked("{\"latestTemplateVersionNumber\":\"8\"}\n")).utf8), hangs: true)
        let heard = try await Self.heard(5, from: [first, second], known: 7) { stream, server in
            #expect(stream.connections == 2)
            let asked = try JSONValue.parse(Array(server.requests[required: 1].body.utf8))
            #expect(asked["lastKnownVersionNumber"] == "7")
        }
        #expect(heard == [nil, 7, nil, nil, 8])
    }

    @Test(
        .timeLimit(.minutes(5)),
        arguments: [
            OriginServer.Reply.status(503), .status(500), .status(403, [], "{\"error\":{\"code\": 403}}"),
            .raw("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"), .raw("garbage\r\n\r\n"), .raw(""),
        ])
    func aFaultIsSurvived(fault: OriginServer.Reply) async throws {
        let good = OriginServer.Reply(
            bytes: Array((Self.head + Self.chunked("{\"latestTemplateVersionNumber\":\"5\"}\n")).utf8), hangs: true)
        // What is broken may open first: the version is what counts.
        let script = [fault, fault, good]
        let heard = try await Self.heardUntil(5, from: script)
        #expect(heard.last == 5)
        #expect(heard.compactMap(\.self) == [5])
    }

    private static func heardUntil(_ last: VersionNumber, from replies: [OriginServer.Reply]) async throws
        -> [VersionNumber?]
    {
        let script = Script(replies)
        let (versions, news) = AsyncStream.makeStream(of: VersionNumber?.self)
        return try await OriginFixture.with { fixture in
            try await OriginServer.serving({ _ in script.next() }) { server in
                var settings = try InvalidationStream.Settings(
                    base: server.url, project: "123", namespace: .firebase, apiKey: "key-1", appID: "a")
                settings.backoff.first = .milliseconds(20)
                settings.backoff.afterEnd = .milliseconds(20)
                let stream = InvalidationStream(
                    settings, access: try fixture.access(), known: { 0 }, onVersion: { news.yield($0) })
                let running = Task { await stream.run() }
                var heard: [VersionNumber?] = []
                for await version in versions {
                    heard.append(version)
                    if version == last { break }
                }
                running.cancel()
                await running.value
                return heard
            }
        }
    }

    @Test(.timeLimit(.minutes(5))) func anInstallationIsMadeWhereTheOriginWantsOne() async throws {
        let (versions, news) = AsyncStream.makeStream(of: VersionNumber?.self)
        try await OriginFixture.with { fixture in
            try await OriginServer.serving({ request in
                if request.target == "/v1/projects/123/installations" {
                    return .json(
                        #"{"fid":"cAbCdEfGhIjKlMnOpQrStU","authToken":{"token":"fis-1","expiresIn":"604800s"}}"#)
                }
                guard request.headers["x-goog-firebase-installations-auth"] == "fis-1",
                    request.body.contains("cAbCdEfGhIjKlMnOpQrStU") || request.body.contains("appInstanceId")
                else { return .status(401) }
                return OriginServer.Reply(bytes: Array((Self.head + Self.chunked("\n")).utf8), hangs: true)
            }) { server in
                let access = try fixture.access()
                var settings = try InvalidationStream.Settings(
                    base: server.url, project: "123", namespace: .firebase, apiKey: "key-1", appID: "1:123:web:abc")
                settings.installation = try FirebaseInstallation(
                    base: server.url, project: "123", apiKey: "key-1", appID: "1:123:web:abc", access: access)
                let stream = InvalidationStream(
                    settings, access: access, known: { 0 }, onVersion: { news.yield($0) })
                let running = Task { await stream.run() }
                #expect(await versions.first { _ in true } == .some(nil))
                running.cancel()
                await running.value
                let made = try #require(server.requests.first)
                #expect(made.headers["x-goog-api-key"] == "key-1")
                #expect(try JSONValue.parse(Array(made.body.utf8))["appId"] == "1:123:web:abc")
            }
        }
    }

    /// A fence that proves by fetches asks before every probe.
    @Test(.timeLimit(.minutes(5)), arguments: ["604800s", "500s", "60s"])
    func aTokenIsUsedAgainHoweverShortItsLife(lifetime: String) async throws {
        try await OriginFixture.with { fixture in
            try await OriginServer.serving({ _ in
                .json(#"{"fid":"cAbCdEfGhIjKlMnOpQrStU","authToken":{"token":"fis-1","expiresIn":"\#(lifetime)"}}"#)
            }) { server in
                let installation = try FirebaseInstallation(
                    base: server.url, project: "123", apiKey: "key-1", appID: "a", access: try fixture.access())
                for _ in 1...20 { #expect(await installation.token() == "fis-1") }
                #expect(server.requests.count == 1)
            }
        }
    }

    @Test(.timeLimit(.minutes(5))) func aRegistrationThatFailedIsNotRepeatedWithEveryProbe() async throws {
        try await OriginFixture.with { fixture in
            try await OriginServer.serving({ _ in .status(500) }) { server in
                let installation = try FirebaseInstallation(
                    base: server.url, project: "123", apiKey: "key-1", appID: "a", access: try fixture.access())
                for _ in 1...20 { #expect(await installation.token() == nil) }
                #expect(server.requests.count == 1)
                #expect(installation.excuse.contains("answers 500"))
            }
        }
    }
}
