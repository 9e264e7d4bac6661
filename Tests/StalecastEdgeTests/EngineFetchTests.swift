import Glibc
import StalecastEdge
import StalecastHTTP
import StalecastHub
import StalecastTemplate
import StalecastWire
import Testing

/// Fetches that the engine answers itself, and what it leaves to the Front.
@Suite(.timeLimit(.minutes(5))) struct EngineFetchTests {
    private static let path = "/v1/projects/demo/namespaces/firebase:fetch"

    private func with(
        size: Int = 10, _ change: (inout EdgeSettings) -> Void = { _ in }, _ body: (LiveEdge) async throws -> Void
    ) async throws {
        try await LiveEdge.with(engine: true, change) { live in
            live.served.install(.of(["a": String(repeating: "x", count: size)]), .fetchable(1))
            try await body(live)
        }
    }

    private func request(_ body: String = FetchBodies.js, headers: [String] = [], path: String = path) -> String {
        let lines = ["POST \(path) HTTP/1.1", "Host: x", "Content-Length: \(body.utf8.count)"] + headers
        return lines.joined(separator: "\r\n") + "\r\n\r\n" + body
    }

    private func answer(_ client: RawClient) throws -> String {
        try client.read { $0.text.hasSuffix("}") }
        defer { client.forget() }
        return client.text
    }

    @Test func oneConnectionFetchesAsksForTheStateAndStreamsWithoutTheFront() async throws {
        try await with { live in
            let client = live.client()
            client.send(request())
            let first = try answer(client)
            #expect(first.hasPrefix("HTTP/1.1 200 OK\r\n") && first.contains(#""a":"xxxxxxxxxx""#))
            let tag = try #require(first.split(separator: "\r\n").first { $0.hasPrefix("ETag: ") }).dropFirst(6)
            client.send(request(headers: ["If-None-Match: \(tag)"]))
            #expect(try answer(client).contains("NO_CHANGE"))
            client.get("/v1/state?topic=PUSH_RC")
            try client.read(untilText: "latestTemplateVersionNumber")
            client.forget()
            client.get("/v1/events?topic=PUSH_RC")
            try client.read(untilText: "event: synced")
            try await live.wait { $0.streams == 1 && $0.fetches.total == 2 }
            #expect(live.edge.tally.handedOver == 0)
        }
    }

    @Test func aBodyThatComesBehindItsHeadIsAwaited() async throws {
        try await with { live in
            let (client, text) = (live.client(), Array(request().utf8))
            client.send(Array(text.dropLast(20)))
            try await live.wait { $0.accepted == 1 }
            client.send(Array(text.suffix(20)))
            #expect(try answer(client).contains("UPDATE"))
            #expect(live.edge.tally.handedOver == 0)
        }
    }

    /// The engine has read the beginning; the Front reads the rest from the socket.
    @Test func theFrontGetsWhatTheEngineHasReadBeforeTheRest() async throws {
        try await with { live in
            let (client, text) = (live.client(), request(FetchBodies.js + String(repeating: " ", count: 20_000)))
            client.send(String(text.prefix(1000)))
            try await live.wait { $0.handedOver == 1 }
            client.send(String(text.dropFirst(1000)))
            #expect(try answer(client).contains("UPDATE"))
        }
    }

    /// The rest is in the socket already when the Front takes over.
    @Test func theFrontReadsNothingBeforeWhatTheEngineHasRead() async throws {
        try await with { live in
            for _ in 1...30 {
                let client = live.client()
                client.send(request(String(repeating: " ", count: 70_000)))
                try client.read(untilText: "\r\n\r\n")
                #expect(client.text.hasPrefix("HTTP/1.1 413 "))
                client.close()
            }
        }
    }

    @Test func aRequestBehindAnAwaitedBodyGoesToTheFrontWithIt() async throws {
        try await with { live in
            let client = live.client()
            client.send(String(request().dropLast(20)))
            try await live.wait { $0.accepted == 1 }
            client.send(String(request().suffix(20)) + "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            try client.read(untilText: "ok\n")
            #expect(client.text.contains("UPDATE"))
            try await live.wait { $0.handedOver == 1 }
        }
    }

    @Test func aRequestThatWasNotFinishedLeavesNothingToTheNextConnection() async throws {
        try await with { live in
            for round in 1...20 {
                let client = live.client()
                client.send(String(request().dropLast(20)))
                try await live.wait { $0.accepted == round }
                client.close()
            }
            let client = live.client()
            client.send(request())
            #expect(try answer(client).contains("UPDATE"))
        }
    }

    /// The socket tells of the loss once, and the engine reads it.
    @Test func aConnectionThatIsLostWhileItsBodyIsAwaitedIsOver() async throws {
        try await LiveEdge.with(engine: true, threads: 1) { live in
            live.served.install(.of(["a": "x"]), .fetchable(1))
            let (lost, other) = (live.client(), live.client())
            lost.send(String(request().dropLast(20)))
            other.send(request())
            // One thread serves both, so by now it has read the other's beginning.
            #expect(try answer(other).contains("UPDATE"))
            lost.reset()
            try await live.wait { $0.drops[.peerClosed] == 1 }
            #expect(live.edge.tally.handedOver == 0)
        }
    }

    @Test func aFetchThatIsWrongIsNoFailureOfOurs() async throws {
        try await with { live in
            let client = live.client()
            client.send(request("{nonsense"))
            try client.read(untilText: "\r\n\r\n")
            #expect(client.text.hasPrefix("HTTP/1.1 400 "))
            try await live.wait { $0.fetches.refused == [400: 1] }
            #expect(live.edge.tally.fetches.failures == 0)
        }
    }

    @Test func aClientThatClosesAfterItsAnswerIsNoLoss() async throws {
        try await with { live in
            let client = live.client()
            client.send(request())
            #expect(try answer(client).contains("UPDATE"))
            client.close()
            try await live.wait { $0.accepted == 1 && live.edge.connections == 0 }
            #expect(live.edge.tally.drops.isEmpty)
        }
    }

    @Test func aBodyThatDoesNotComeIsRefusedInTime() async throws {
        try await with({ $0.connections.headTimeout = .milliseconds(200) }) { live in
            let client = live.client()
            client.send(String(request().dropLast(20)))
            #expect(try client.readToEnd().hasPrefix("HTTP/1.1 408 "))
            try await live.wait { $0.drops[.bodyTimeout] == 1 }
        }
    }

    /// The socket does not take all of it at once.
    @Test func aLargeAnswerReachesASlowReaderWhole() async throws {
        try await with(size: 300_000) { live in
            let client = live.client(receiveBuffer: 4096)
            client.send(request())
            let first = try answer(client)
            client.send(request())
            let second = try answer(client)
            #expect(first.utf8.count > 300_000 && second.utf8.count > 300_000)
            #expect(live.edge.tally.handedOver == 0)
        }
    }

    /// A poll brings the connection into the engine.
    @Test(arguments: [10, 300_000])
    func aConnectionOverTLSThatPolledFetchesInTheEngine(size: Int) async throws {
        try await LiveEdge.with(engine: true, tls: TLSServer(.development()), threads: 1) { live in
            live.served.install(.of(["a": String(repeating: "x", count: size)]), .fetchable(1))
            let client = live.client(receiveBuffer: 4096)
            client.get("/v1/poll?topic=PUSH_RC&wait=0s")
            try client.read(untilText: "\"messages\":[]}\n")
            client.forget()
            for _ in 0..<2 {
                client.send(request())
                let text = try answer(client)
                #expect(text.hasPrefix("HTTP/1.1 200 OK\r\n") && text.utf8.count > size && text.contains("UPDATE"))
            }
            try await live.wait { $0.fetches.total == 2 }
            #expect(live.edge.tally.handedOver == 1)
        }
    }

    @Test func aConnectionOverTLSThatFetchedGoesOnInTheEngine() async throws {
        try await LiveEdge.with(engine: true, tls: TLSServer(.development()), threads: 1) { live in
            live.served.install(.of(["a": "x"]), .fetchable(1))
            let client = live.client()
            for _ in 0..<3 {
                client.send(request())
                #expect(try answer(client).contains("UPDATE"))
            }
            // The engine does not recognise it, so it gives the connection back; it did so before the handshake.
            client.get("/healthz")
            try client.read(untilText: "ok\n")
            client.forget()
            try await live.wait { $0.handedOver == 2 }
            client.send(request())
            #expect(try answer(client).contains("UPDATE"))
            client.get("/healthz")
            try client.read(untilText: "ok\n")
            // What came back once stays.
            try await live.wait { $0.fetches.total == 4 && $0.handedOver == 2 }
        }
    }

    /// The engine has read all records at once. Where it gives a connection to the Front, it gives those that it has not
    /// opened too.
    @Test(arguments: [true, false]) func recordsThatComeTogetherAreAllAnswered(areWhole: Bool) async throws {
        try await LiveEdge.with(engine: true, tls: TLSServer(.development()), threads: 1) { live in
            live.served.install(.of(["a": "x"]), .fetchable(1))
            let client = live.client()
            client.send(request())
            #expect(try answer(client).contains("UPDATE"))
            let tls = try #require(client.tls)
            let whole = request()
            let end = try #require(whole.firstIndex(of: "{"))
            let pieces = areWhole ? [whole, whole] : [String(whole[..<end]), String(whole[end...])]
            client.sendRaw(pieces.flatMap { tls.seal(Array($0.utf8), over: client.fd) })
            try client.read { $0.text.split(separator: "UPDATE").count == (areWhole ? 3 : 2) }
            try await live.wait { $0.fetches.total == (areWhole ? 3 : 2) && $0.handedOver == (areWhole ? 1 : 2) }
        }
    }

    /// One segment brings two requests and the end, and the socket reports it once.
    @Test func theEndThatComesWithRecordsIsSeenAfterThem() async throws {
        let server = try TLSServer(.development())
        try await LiveEdge.with(engine: true, tls: server, threads: 1, { $0.connections.idleTimeout = .seconds(600) }) {
            live in
            live.served.install(.of(["a": "x"]), .fetchable(1))
            let client = live.client()
            client.send(request())
            #expect(try answer(client).contains("UPDATE"))
            let tls = try #require(client.tls)
            var isHeld: Int32 = 1
            setsockopt(client.fd, Int32(IPPROTO_TCP), TCP_CORK, &isHeld, 4)
            client.sendRaw((0..<2).flatMap { _ in tls.seal(Array(request().utf8), over: client.fd) })
            shutdown(client.fd, Int32(SHUT_WR))
            try client.read { $0.text.split(separator: "UPDATE").count == 3 }
            try await live.wait { $0.fetches.total == 3 && live.edge.connections == 0 }
        }
    }

    /// A poll is held, and what came with it has been read; the socket reports what comes later once. A large answer
    /// waits for the socket in between.
    @Test(arguments: [10, 300_000]) func requestsBehindAHeldPollAreAllAnswered(size: Int) async throws {
        let server = try TLSServer(.development())
        try await LiveEdge.with(engine: true, tls: server, threads: 1, { $0.connections.idleTimeout = .seconds(600) }) {
            live in
            live.served.install(.of(["a": String(repeating: "x", count: size)]), .fetchable(1))
            let client = live.client(receiveBuffer: 4096)
            let tls = try #require(client.tls)
            let last = "GET /v1/poll?topic=PUSH_RC&wait=0s HTTP/1.1\r\nHost: x\r\n\r\n"
            func expect(answers: Int) throws {
                let end = Array("\"messages\":[]}\n".utf8)
                try client.read { $0.received.suffix(end.count) == end[...] }
                #expect(client.text.split(separator: "HTTP/1.1 200 ").count == answers)
                client.forget()
            }
            // It brings the connection into the engine.
            client.send(last)
            try expect(answers: 1)
            for round in 0..<20 {
                let together = [last.replacing("=0s", with: "=50s"), request()]
                client.sendRaw(together.flatMap { tls.seal(Array($0.utf8), over: client.fd) })
                try await live.wait { $0.polls == 1 }
                // The last one comes while the poll is held, or just after.
                if round.isMultiple(of: 2) { client.send(last) }
                live.publish()
                if !round.isMultiple(of: 2) { client.send(last) }
                try expect(answers: 3)
                try await live.wait { $0.polls == 0 }
            }
        }
    }

    /// iOS packs its bodies, and prints them by hand.
    @Test func aBodyInGzipIsReadInTheEngine() async throws {
        try await with { live in
            let client = live.client()
            let body = FetchBodies.iosPacked
            let head = "POST \(Self.path) HTTP/1.1\r\nHost: x\r\nContent-Length: \(body.count)\r\n\r\n"
            client.send(Array(head.utf8) + body)
            #expect(try answer(client).contains("UPDATE"))
            #expect(live.edge.tally.handedOver == 0)
            client.send(Array(head.utf8) + body.dropLast() + [1])
            try client.read(untilText: "cannot be inflated")
        }
    }

    @Test(arguments: [true, false]) func answersAreInGzipForThoseThatTakeIt(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            live.served.install(.of(["a": String(repeating: "x", count: 5000)]), .fetchable(1))
            let client = live.client()
            func answer(_ codings: String) throws -> (head: String, body: [UInt8]) {
                client.send(request(headers: ["Accept-Encoding: \(codings)"]))
                var found: (String, [UInt8])?
                try client.read { client in
                    guard let end = client.received.firstRange(of: Array("\r\n\r\n".utf8)) else { return false }
                    let head = String(decoding: client.received[..<end.lowerBound], as: UTF8.self)
                    let length = head.split(separator: "\r\n").first { $0.hasPrefix("Content-Length: ") }
                    let body = Array(client.received[end.upperBound...])
                    guard body.count == length.flatMap({ Int($0.dropFirst(16)) }) else { return false }
                    found = (head, body)
                    return true
                }
                client.forget()
                return try #require(found)
            }
            let plain = try answer("br, identity")
            // It is made beside the loop when it is asked for the second time.
            var packed = try answer("br, GZIP;q=0.5")
            let end = Clock.now() + 20
            while !packed.head.contains("Content-Encoding: gzip\r\n"), Clock.now() < end { packed = try answer("gzip") }
            #expect(packed.body.count < 200 && packed.head.contains("Vary: Accept-Encoding\r\n"))
            #expect(try RequestBody.inflated(packed.body, cap: 10_000) == plain.body)
            #expect(packed.head.split(separator: "\r\n").contains { plain.head.contains($0) && $0.hasPrefix("ETag: ") })
            for codings in ["gzip;q=0", "gzip ; q=0.000", "x-gzip", "deflate"] {
                #expect(try answer(codings).body == plain.body, "\(codings)")
            }
        }
    }

    @Test func whatIsWrongWithAFetchIsSaidByTheFront() async throws {
        try await with({ $0.apiKeys = ["k"] }) { live in
            for (text, status) in [
                (request(headers: ["X-Goog-Api-Key: k"]), 200), (request(path: Self.path + "?key=%6B"), 200),
                (request(), 403),
                (request("{}", headers: ["X-Goog-Api-Key: k"]), 400),
                (request(path: "/v1/projects/none/namespaces/x:fetch"), 403),
            ] {
                let client = live.client()
                client.send(text)
                try client.read(untilText: "\r\n\r\n")
                #expect(client.text.hasPrefix("HTTP/1.1 \(status) "), "\(client.text)")
            }
            try await live.wait { $0.handedOver == 3 && $0.fetches.total == 2 }
        }
    }
}
