import StalecastSources
import StalecastTestServers
import Synchronization
import Testing
import Foundation

@Suite struct HTTPSourceTests {
    private static func polling<Value>(
        at replies: [OriginServer.Reply], maxBodyBytes: Int = 1 << 20, timeout: Duration = .seconds(60),
        _ body: (HTTPSource, OriginServer) async throws -> Value
    ) async throws -> Value {
        let script = Script(replies)
        return try await OriginFixture.with { fixture in
            try await OriginServer.serving({ _ in script.next() }) { server in
                let access = try fixture.access(maxBodyBytes: maxBodyBytes, timeout: timeout)
                return try await body(try fixture.source(server, access), server)
            }
        }
    }

    @Test func seesTheDocumentOnceAndItsChanges() async throws {
        let first = OriginServer.Reply.json(OriginFixture.template("one"))
        let second = OriginServer.Reply.json(OriginFixture.template("two"))
        try await Self.polling(at: [first, first, second, second]) { source, _ in
            await source.shows("one")
            #expect(await source.poll() == .unchanged)
            await source.shows("two")
            #expect(await source.poll() == .unchanged)
        }
    }

    @Test func asksConditionallyWithWhatTheOriginSaid() async throws {
        let old = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"
        let reply = OriginServer.Reply.json(
            OriginFixture.template("one"), ["ETag: \"a-1\"", old, "Date: Sun, 06 Nov 1994 09:00:00 GMT"])
        try await Self.polling(at: [reply, .status(304)]) { source, server in
            await source.shows("one")
            #expect(await source.poll() == .unchanged)
            #expect(await source.poll() == .unchanged)
            let first = try server.requests[required: 0]
            #expect(first.headers["if-none-match"] == nil)
            for request in server.requests.dropFirst() {
                #expect(request.headers["if-none-match"] == "\"a-1\"")
                #expect(request.headers["if-modified-since"] == "Sun, 06 Nov 1994 08:49:37 GMT")
            }
        }
    }

    @Test func aDocumentChangedWithinTheSecondIsReadAgainWhole() async throws {
        let now = [
            "ETag: \"x\"", "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT", "Date: Sun, 06 Nov 1994 08:49:38 GMT",
        ]
        let replies = ["one", "two"].map { OriginServer.Reply.json(OriginFixture.template($0), now) }
        try await Self.polling(at: replies) { source, server in
            await source.shows("one")
            await source.shows("two")
            let second = try server.requests[required: 1]
            #expect(second.headers["if-none-match"] == nil)
        }
    }

    @Test func aBadDocumentIsReportedUntilThereIsAnother() async throws {
        let bad = OriginServer.Reply.json("{\"parameters\":7}", ["ETag: \"bad\""])
        let good = OriginServer.Reply.json(OriginFixture.template("two"), ["ETag: \"good\""])
        try await Self.polling(at: [bad, .status(304), bad, good, .status(304)]) { source, _ in
            for _ in 0..<3 { #expect(await source.poll().problem?.reason == .invalidContent) }
            await source.shows("two")
            #expect(await source.poll() == .unchanged)
        }
    }

    @Test func whatCouldNotBeAdoptedIsSeenAgain() async throws {
        let reply = OriginServer.Reply.json(OriginFixture.template("one"), ["ETag: \"a\""])
        try await Self.polling(at: [reply]) { source, server in
            await source.shows("one")
            source.forget()
            await source.shows("one")
            let second = try server.requests[required: 1]
            #expect(second.headers["if-none-match"] == nil)
        }
    }

    private static let faults: [(OriginServer.Reply, OriginProblem.Reason)] = [
        (.status(500), .serverError), (.status(502), .serverError), (.status(404), .notFound),
        (.status(410), .notFound),
        (.status(401), .unauthorized), (.status(403), .unauthorized), (.status(418), .unexpectedStatus),
        (.status(204), .unexpectedStatus), (.status(206, [], "{}"), .unexpectedStatus),
        (.status(304), .unexpectedStatus), (.json("{"), .invalidContent), (.json(""), .invalidContent),
        (.status(200, ["Content-Type: text/html"], "<html>sorry</html>"), .invalidContent),
        (
            .raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"parameters\":{}}"),
            .brokenAnswer
        ),
        (.raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11\r\n{\"parameters\":{}}\r\n"), .brokenAnswer),
        (.raw("what?\r\n\r\n"), .brokenAnswer), (.raw(""), .brokenAnswer),
    ]

    @Test(arguments: 0..<17) func aFaultIsAProblemAndTheNextGoodAnswerEndsIt(index: Int) async throws {
        #expect(Self.faults.count == 17)
        let (reply, reason) = Self.faults[index]
        // libcurl itself asks again when a kept connection breaks: the fault comes as often as it is asked for.
        let isGood = Mutex(false)
        try await OriginFixture.with { fixture in
            try await OriginServer.serving({ _ in
                isGood.withLock { $0 } ? .json(OriginFixture.template("one")) : reply
            }) { server in
                let source = try fixture.source(server)
                let problem = await source.poll().problem
                #expect(problem?.reason == reason, "\(String(describing: problem))")
                #expect(problem?.description.isEmpty == false)
                isGood.withLock { $0 = true }
                await source.shows("one")
            }
        }
    }

    @Test func aRedirectIsNotFollowedAndSaysWhereTo() async throws {
        try await OriginServer.serving({ _ in .json(OriginFixture.template("secret")) }) { other in
            try await Self.polling(at: [.status(302, ["Location: \(other.url)/x"])]) { source, _ in
                let problem = await source.poll().problem
                #expect(problem?.reason == .redirect)
                #expect(problem?.description.contains("\(other.url)/x") == true)
                #expect(other.requests.isEmpty)
            }
        }
    }

    @Test(arguments: [
        (429, "Retry-After: 7", Duration.seconds(7)), (503, "Retry-After: 120", .seconds(120)),
        (500, "Retry-After: 1", .seconds(1)),
    ])
    func theOriginCanAskToBeLeftAlone(status: Int, header: String, expected: Duration) async throws {
        try await Self.polling(at: [.status(status, [header])]) { source, _ in
            #expect(await source.poll().problem?.retryAfter == expected)
        }
        try await Self.polling(at: [.status(status)]) { source, _ in
            #expect(await source.poll().problem?.retryAfter == nil)
        }
    }

    @Test(arguments: [
        "HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n",
    ])
    func aGigabyteIsNotRead(head: String) async throws {
        let reply = OriginServer.Reply(bytes: Array(head.utf8), flood: 1 << 30)
        try await Self.polling(at: [reply], maxBodyBytes: 1 << 20) { source, server in
            let problem = await source.poll().problem
            #expect(problem?.reason == .tooLarge)
            #expect(problem?.description.contains("maxBytes") == true)
            #expect(server.flooded < 64 << 20)
        }
    }

    @Test func anOriginThatSaysNothingIsATimeout() async throws {
        let reply = OriginServer.Reply(bytes: Array("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{".utf8), hangs: true)
        try await Self.polling(at: [reply], timeout: .milliseconds(300)) { source, _ in
            #expect(await source.poll().problem?.reason == .timeout)
        }
    }

    @Test func anOriginThatIsDownIsUnreachable() async throws {
        try await OriginFixture.with { fixture in
            let source = try await OriginServer.serving({ _ in .status(200) }) { try fixture.source($0) }
            #expect(await source.poll().problem?.reason == .unreachable)
        }
    }

    @Test func loopbackMustBeAllowedByName() async throws {
        try await OriginFixture.with { fixture in
            try await OriginServer.serving({ _ in .json(OriginFixture.template("one")) }) { server in
                let problem = await (try fixture.source(server, fixture.access(allow: []))).poll().problem
                #expect(problem?.reason == .blocked)
                #expect(problem?.description.contains("sources.allow") == true)
                #expect(server.requests.isEmpty)
            }
        }
    }

    @Test func aTokenFromAFileIsShownAndReadAgainWhenItIsRefused() async throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "stalecast-token-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: path) }  // a leftover does no harm
        try "first".write(toFile: path, atomically: true, encoding: .utf8)
        let good = Mutex("first")
        try await OriginFixture.with { fixture in
            try await OriginServer.serving({ request in
                request.headers["authorization"] == "Bearer \(good.withLock { $0 })"
                    ? .json(OriginFixture.template(good.withLock { $0 })) : .status(401)
            }) { server in
                let source = try fixture.source(server, fixture.access(.file(BearerFile(path: path))))
                await source.shows("first")
                good.withLock { $0 = "second" }
                #expect(await source.poll().problem?.reason == .unauthorized)
                try "second".write(toFile: path, atomically: true, encoding: .utf8)
                await source.shows("second")
                try FileManager.default.removeItem(atPath: path)
                let count = server.requests.count
                #expect(await source.poll().problem?.reason == .unauthorized)
                #expect(server.requests.count == count, "nothing is asked without the token")
            }
        }
    }
}
