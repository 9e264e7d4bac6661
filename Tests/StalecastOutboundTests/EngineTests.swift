import Foundation
import StalecastOutbound
import StalecastTestServers
import StalecastTestSupport
import Synchronization
import Testing

@Suite struct EngineTests {
    @Test func aPostArrivesWholeAndItsAnswerComesBack() async throws {
        try await OriginServer.serving({ _ in .status(201, ["X-Kept: yes", "X-Other: no"], "made") }) { server in
            try await EngineFixture.running { fixture in
                let outcome = try await fixture.send("\(server.url)/hook?a=1") {
                    $0.method = "POST"
                    $0.sharedHeaders = OutboundHeaderLines([OutboundHeader(trusted: "x-shared", "2")])
                    $0.headers = [OutboundHeader(trusted: "x-mine", "1"), OutboundHeader(trusted: "x-empty", "")]
                    $0.body = Array("text".utf8)
                    $0.keptHeaders = ["x-kept"]
                }
                guard case .answered(201, ["x-kept": "yes"], Array("made".utf8), false) = outcome.result else {
                    Issue.record("\(outcome)")
                    return
                }
                let seen = try #require(server.requests.first)
                #expect(seen.method == "POST" && seen.target == "/hook?a=1" && seen.body == "text")
                #expect(seen.headers["x-mine"] == "1" && seen.headers["x-empty"] == "")
                #expect(seen.headers["x-shared"] == "2")
                #expect(seen.headers["expect"] == nil && seen.headers["content-type"] == nil)
            }
        }
    }

    @Test func linesThatStandTogetherArriveEachAsAHeader() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            try await EngineFixture.running { fixture in
                let shared = OutboundHeaderLines(
                    [
                        ("content-type", "text/plain"), ("webhook-id", "1"), ("x-empty", ""), ("ce-type", "t"),
                        ("accept", "text/html"), ("user-agent", "own"),
                    ].map { OutboundHeader(trusted: $0.0, $0.1) })
                _ = try await fixture.send(server.url) {
                    $0.method = "POST"
                    $0.sharedHeaders = shared
                    $0.headers = [OutboundHeader(trusted: "x-mine", "1")]
                    $0.signatureLines = Array("webhook-timestamp: 2\r\nwebhook-signature: v1,a".utf8)
                    $0.body = Array("text".utf8)
                }
                var seen = try #require(server.requests.first).headers
                for name in ["host", "content-length"] { seen[name] = nil }
                #expect(
                    seen == [
                        "content-type": "text/plain", "webhook-id": "1", "x-empty": "", "ce-type": "t",
                        "accept": "text/html", "user-agent": "own", "x-mine": "1", "webhook-timestamp": "2",
                        "webhook-signature": "v1,a",
                    ])
            }
        }
    }

    @Test func sharedAndOwnBodiesFollowEachOtherOnOneHandle() async throws {
        try await OriginServer.serving({ .status(200, [], $0.body) }) { server in
            try await EngineFixture.running { fixture in
                let shared = OutboundBody(Array("both".utf8))
                for body in [nil, "mine", nil, nil, "other text", nil] as [String?] {
                    let outcome = try await fixture.send(server.url) {
                        $0.method = "POST"
                        if let body { $0.body = Array(body.utf8) } else { $0.share(shared) }
                    }
                    #expect(outcome.text == body ?? "both")
                }
                #expect(try await fixture.send(server.url).text == "")
                #expect(try await fixture.send(server.url) { $0.share(OutboundBody([])) }.text == "")
                #expect(fixture.engine.figures.handles == 1)
            }
        }
    }

    @Test func oneHandleSendsAllMethodsOneAfterTheOther() async throws {
        try await OriginServer.serving({ .status(200, [], $0.method == "HEAD" ? "" : $0.method) }) { server in
            try await EngineFixture.running { fixture in
                for method in ["POST", "GET", "PATCH", "HEAD", "OPTIONS", "POST", "GET"] {
                    let outcome = try await fixture.send(server.url) {
                        $0.method = method
                        $0.body = method == "POST" || method == "PATCH" ? Array(method.utf8) : nil
                    }
                    #expect(outcome.status == 200)
                }
                #expect(server.requests.map(\.method) == ["POST", "GET", "PATCH", "HEAD", "OPTIONS", "POST", "GET"])
                #expect(server.requests.map(\.body) == ["POST", "", "PATCH", "", "", "POST", ""])
                #expect(fixture.engine.figures.newConnections == 1)
            }
        }
    }

    @Test func oneHandleSendsEachPathAndBodyAsItIs() async throws {
        try await OriginServer.serving({ .status(200, [], $0.body) }) { server in
            try await EngineFixture.running { fixture in
                // Longer than what a handle keeps, shorter, of the same length, none, and one after none.
                let bodies = [String(repeating: "a", count: 100_000), "bbb", "ccc", "", nil, "ccc", "d"]
                for (index, body) in bodies.enumerated() {
                    let outcome = try await fixture.send("\(server.url)/hook/\(index % 3)?n=\(index / 3)") {
                        $0.method = "POST"
                        $0.body = body.map { Array($0.utf8) }
                        $0.limits.maxBodyBytes = 200_000
                    }
                    #expect(outcome.text == body ?? "")
                }
                let targets = ["/0?n=0", "/1?n=0", "/2?n=0", "/0?n=1", "/1?n=1", "/2?n=1", "/0?n=2"]
                #expect(server.requests.map(\.target) == targets.map { "/hook\($0)" })
                #expect(server.requests.map(\.body) == bodies.map { $0 ?? "" })
                #expect(fixture.engine.figures.handles == 1)
            }
        }
    }

    @Test func connectionsAreKeptForTheNextRequestOfAnyHandle() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            try await EngineFixture.running { fixture in
                let first = try await fixture.send(server.url)
                #expect(!first.reusedConnection)
                for _ in 1...20 {
                    let outcome = try await fixture.send(server.url)
                    #expect(outcome.reusedConnection && outcome.phases.connect == 0)
                }
                // Another handle, because its certificates could be others: for plain http they do not matter.
                let other = try await fixture.send(server.url) { $0.tls = OutboundTLS() }
                #expect(other.reusedConnection && fixture.engine.figures.handles == 2)
            }
        }
    }

    @Test func redirectsAreAnswersAndNotFollowed() async throws {
        try await OriginServer.serving({ _ in .status(302, ["Location: /elsewhere"]) }) { server in
            try await EngineFixture.running { fixture in
                let outcome = try await fixture.send(server.url)
                #expect(outcome.status == 302)
                #expect(server.requests.count == 1)
            }
        }
    }

    @Test func aLongBodyIsCutOrRefusedAsAskedAndNotReadToItsEnd() async throws {
        let flood = 64 << 20
        let reply = OriginServer.Reply(
            bytes: Array("HTTP/1.1 200 OK\r\nContent-Length: \(flood)\r\n\r\n".utf8), flood: flood)
        try await OriginServer.serving({ _ in reply }) { server in
            try await EngineFixture.running { fixture in
                let cut = try await fixture.send(server.url) { $0.limits.maxBodyBytes = 1000 }
                guard case .answered(200, _, let body, true) = cut.result, body.count == 1000 else {
                    throw Unexpected(outcome: cut)
                }
                let refused = try await fixture.send(server.url) {
                    $0.limits.maxBodyBytes = 1000
                    $0.limits.overflow = .fail
                }
                #expect(refused.failure == .tooLarge)
                #expect(server.flooded < flood)
            }
        }
    }

    private struct Unexpected: Error { let outcome: OutboundOutcome }

    @Test(arguments: [
        (OriginServer.Reply.raw("", closes: true), OutboundFailure.Reason.reset),
        (.raw("nonsense\r\n\r\n", closes: true), .badAnswer),
        (.raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", closes: true), .reset),
        (OriginServer.Reply(bytes: Array("HTTP/1.1 200 OK\r\n".utf8), hangs: true), .responseTimeout),
        (OriginServer.Reply(bytes: [], hangs: true), .responseTimeout),
    ])
    func whatIsNoAnswerHasAReason(reply: OriginServer.Reply, reason: OutboundFailure.Reason) async throws {
        try await OriginServer.serving({ _ in reply }) { server in
            try await EngineFixture.running { fixture in
                let outcome = try await fixture.send(server.url) {
                    $0.limits.timeout = reason == .responseTimeout ? .milliseconds(400) : .seconds(60)
                }
                #expect(outcome.failure == reason, "\(outcome)")
            }
        }
    }

    @Test func aPortWithoutAListenerIsRefused() async throws {
        let port = try await OriginServer.serving({ _ in .status(204) }) { $0.port }
        try await EngineFixture.running { fixture in
            let outcome = try await fixture.send("http://127.0.0.1:\(port)/")
            #expect(outcome.failure == .refused)
        }
    }

    @Test func tlsWithASilentPeerTimesOutAsTLS() async throws {
        try await OriginServer.serving({ _ in OriginServer.Reply(bytes: [], hangs: true) }) { server in
            try await EngineFixture.running { fixture in
                let outcome = try await fixture.send("https://127.0.0.1:\(server.port)/") {
                    $0.limits.connectTimeout = .milliseconds(300)
                }
                #expect(outcome.failure == .tlsTimeout)
            }
        }
    }

    @Test func anUnknownNameIsADNSFailure() async throws {
        try await EngineFixture.running { fixture in
            let outcome = try await fixture.send("http://no-such-host.invalid/")
            #expect(outcome.failure == .dns || outcome.failure == .dnsTimeout)
        }
    }

    @Test func cancellingATaskEndsItsRequest() async throws {
        try await OriginServer.serving({ _ in OriginServer.Reply(bytes: [], hangs: true) }) { server in
            try await EngineFixture.running { fixture in
                let request = try fixture.request(server.url)
                let task = Task { await fixture.engine.send(request) }
                try await eventually { !server.requests.isEmpty }
                task.cancel()
                #expect(await task.value.failure == .cancelled)
                #expect(fixture.engine.figures.inFlight == 0 || server.requests.count == 1)
            }
        }
    }

    @Test func requestsBeyondTheLimitWaitTheirTurn() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            try await EngineFixture.running(OutboundConfiguration(maxInFlight: 2)) { fixture in
                let request = try fixture.request(server.url)
                let statuses = await withTaskGroup(of: Int?.self, returning: [Int?].self) { group in
                    for _ in 0..<50 { group.addTask { await fixture.engine.send(request).status } }
                    return await group.reduce(into: []) { $0.append($1) }
                }
                #expect(statuses == Array(repeating: 204, count: 50))
                #expect(fixture.engine.figures.newConnections <= 2)
            }
        }
    }

    @Test func aStreamIsPassedOnAsItComesAndEndsWhenToldTo() async throws {
        let reply = OriginServer.Reply(bytes: Array("HTTP/1.1 200 OK\r\n\r\nfirst".utf8), hangs: true)
        try await OriginServer.serving({ _ in reply }) { server in
            try await EngineFixture.running { fixture in
                let seen = Mutex<[String]>([])
                let outcome = await fixture.engine.stream(
                    try fixture.request(server.url) { $0.limits.timeout = .zero }
                ) { status, bytes in
                    seen.withLock { $0.append("\(status) \(String(decoding: bytes, as: UTF8.self))") }
                    return bytes.isEmpty
                }
                #expect(seen.withLock { $0 } == ["200 ", "200 first"])
                #expect(outcome.failure == .cancelled)
            }
        }
    }

    @Test func timersRunInOrderAndNotWhenCancelled() async throws {
        try await EngineFixture.running { fixture in
            let order = Mutex<[Int]>([])
            await withCheckedContinuation { continuation in
                let cancelled = fixture.engine.at(2) { order.withLock { $0.append(2) } }
                fixture.engine.cancel(cancelled)
                fixture.engine.at(UInt64(clock_gettime_nsec_np()) + 20_000_000) {
                    order.withLock { $0.append(3) }
                    continuation.resume()
                }
                fixture.engine.at(1) { order.withLock { $0.append(1) } }
            }
            #expect(order.withLock { $0.filter { $0 != 2 } } == [1, 3])
        }
    }

    private func clock_gettime_nsec_np() -> UInt64 {
        var now = timespec()
        clock_gettime(CLOCK_MONOTONIC, &now)
        return UInt64(now.tv_sec) * 1_000_000_000 + UInt64(now.tv_nsec)
    }

    /// An owner's timer holds the owner, which holds the engine with its descriptors.
    @Test func anEngineThatEndedKeepsNoTimer() async throws {
        final class Owner: Sendable {}
        weak var held: Owner?
        try await EngineFixture.running { fixture in
            let owner = Owner()
            held = owner
            fixture.engine.at(.max) { _ = owner }
        }
        #expect(held == nil)
    }

    @Test func whatIsUnderWayAtShutdownIsCancelledAndLaterRequestsToo() async throws {
        try await OriginServer.serving({ _ in OriginServer.Reply(bytes: [], hangs: true) }) { server in
            let fixture = try await EngineFixture.running { fixture in
                let request = try fixture.request(server.url)
                let task = Task { await fixture.engine.send(request) }
                try await eventually { !server.requests.isEmpty }
                await fixture.engine.shutdown(grace: .milliseconds(10))
                #expect(await task.value.failure == .cancelled)
                return fixture
            }
            let outcome = try await fixture.send(server.url)
            #expect(outcome.failure == .cancelled)
        }
    }
}
