import Foundation
import StalecastClient
import StalecastTestServers
import StalecastTestSupport
import Testing

/// A connection over server-sent events, against servers that behave and servers that do not.
@Suite struct EventStreamConnectionTests {
    private let log = ConnectionLog()

    @Test func messagesAreReportedAsTheyCome() async throws {
        try await StreamServer.serving { server in
            let connection = StaleConnection.test(server, log, topics: ["PUSH_RC", "a~b"], have: 3)
            connection.start()
            defer { connection.stop() }
            try await eventually { server.peers.count == 1 }
            let peer = try server.peers[required: 0]
            #expect(peer.line == "GET /v1/events?topic=PUSH_RC&topic=a~b&have=3 HTTP/1.1")
            #expect(peer.headers["accept"] == "text/event-stream")
            #expect(peer.headers["cache-control"] == "no-cache")
            #expect(peer.headers["last-event-id"] == nil)
            try await eventually { log.states == [.connecting] }
            peer.openStream("retry: 20\n: hello\n\n" + syncedEvent("e.1"))
            try await eventually { log.cursors == ["e.1"] }
            peer.send(staleEvent(4, cursor: "e.2"))
            try await eventually { log.versions == [4] }
            let notice = try #require(log.notices.first)
            #expect(notice.topic == "PUSH_RC" && notice.project == "demo" && notice.namespace == "firebase")
            #expect(notice.sinceVersion == 1 && notice.changedKeys == ["a", "b"] && notice.etag == "etag-4")
            #expect(notice.updateType == "ROLLBACK" && notice.fetchWindowMs == 250 && !notice.isUrgent)
            #expect(notice.data["CONFIG_STATE"] == "STALE" && notice.data["latestTemplateVersionNumber"] == "4")
            #expect(log.states == [.connecting, .open(transport: "sse")])
        }
    }

    @Test func dataMessagesAndUnknownEventsAndNonsenseAreToldApart() async throws {
        try await StreamServer.serving { peer, _ in
            peer.openStream(
                "data: {\"screen\":\"home\",\"count\":3}\n\nevent: later\ndata: {}\n\ndata: nonsense\n\ndata: []\n\n")
        } _: { server in
            let connection = StaleConnection.test(server, log)
            connection.start()
            defer { connection.stop() }
            try await eventually { log.events.count == 5 }
            let notice = try #require(log.notices.first)
            #expect(
                notice.data == ["screen": "home", "count": "3"] && notice.topic == "PUSH_RC" && notice.version == 0)
            for event in log.events.suffix(2) {
                guard case .invalidMessage = event else { Issue.record("\(event)"); return }
            }
        }
    }

    @Test func aBrokenStreamIsResumedWhereItEnded() async throws {
        try await StreamServer.serving { peer, count in
            switch count {
            case 0:
                peer.openStream("retry: 1\n\n" + syncedEvent("e.1") + staleEvent(2, cursor: "e.2"))
                // Cut off in the middle: neither the message nor its id counts.
                peer.send("id: e.3\ndata: {\"latest")
                peer.close()
            case 1: peer.reset()
            default: peer.openStream(staleEvent(3, cursor: "e.3") + syncedEvent("e.3"))
            }
        } _: { server in
            let connection = StaleConnection.test(server, log, cursor: "e.0")
            connection.start()
            defer { connection.stop() }
            try await eventually { log.versions == [2, 3] && log.cursors == ["e.1", "e.3"] }
            let ids = server.peers.map { $0.headers["last-event-id"] }
            #expect(ids == ["e.0", "e.2", "e.2"])
            #expect(log.losses.count == 2, "\(log.events)")
        }
    }

    @Test func whatWasReportedBeforeIsNotReportedAgain() async throws {
        try await StreamServer.serving { peer, count in
            switch count {
            case 0:
                peer.openStream("retry: 1\n\n" + staleEvent(2) + staleEvent(3, topic: "other"))
                peer.close()
            case 1:
                peer.openStream(staleEvent(2) + staleEvent(3, topic: "other") + staleEvent(4))
                peer.close()
            default:
                peer.openStream("event: reset\ndata: {\"reason\":\"unknown-epoch\"}\n\n" + staleEvent(1))
            }
        } _: { server in
            let connection = StaleConnection.test(server, log)
            connection.start()
            defer { connection.stop() }
            try await eventually { log.versions == [2, 3, 4, 1] }
            #expect(log.events.contains(.reset(reason: "unknown-epoch")))
        }
    }

    @Test func aServerThatIsAwayIsTriedUntilItIsBack() async throws {
        let server = try StreamServer()
        let port = server.port
        let connection = StaleConnection.test(server, log)
        connection.start()
        defer { connection.stop() }
        try await eventually { server.peers.count == 1 }
        try server.peers[required: 0].openStream(": up\n\n")
        try await eventually { log.states.last == .open(transport: "sse") }
        server.stop()
        try await eventually { log.losses.count >= 12 }
        #expect(log.states.contains { if case .waiting(let failures, _) = $0 { failures >= 10 } else { false } })
        _ = port
    }

    @Test func silenceEndsAConnection() async throws {
        try await StreamServer.serving { peer, count in
            if count == 0 { peer.openStream(": hb\n\n") } else { peer.openStream(staleEvent(2)) }
        } _: { server in
            let connection = StaleConnection.test(server, log) { $0.heartbeatLimit = 0.1 }
            connection.start()
            defer { connection.stop() }
            try await eventually { log.versions == [2] }
            #expect(log.losses.first?.contains("no heartbeat") == true)
            let silent = try server.peers[required: 0]
            try await eventually { silent.isAbandoned }
        }
    }

    @Test func heartbeatsKeepAConnection() async throws {
        try await StreamServer.serving { server in
            let connection = StaleConnection.test(server, log) { $0.heartbeatLimit = 1 }
            connection.start()
            defer { connection.stop() }
            try await eventually { server.peers.count == 1 }
            let peer = try server.peers[required: 0]
            peer.openStream()
            let (beats, beat) = AsyncStream.makeStream(of: Void.self)
            // From a thread of its own, which other tests cannot hold up, until the connection ends.
            Thread.detachNewThread {
                while peer.send(":\n") {
                    beat.yield()
                    usleep(20_000)
                }
                beat.finish()
            }
            // Together they take longer than the limit.
            #expect(await beats.prefix(75).reduce(0) { count, _ in count + 1 } == 75)
            #expect(server.peers.count == 1 && log.losses.isEmpty)
        }
    }

    @Test func a204EndsItForEver() async throws {
        try await StreamServer.serving { peer, _ in
            peer.send("HTTP/1.1 204 No Content\r\n\r\n")
        } _: { server in
            let connection = StaleConnection.test(server, log)
            connection.start()
            try await eventually { log.states.last == .ended }
            connection.networkChanged()
            connection.enterBackground()
            connection.enterForeground()
            connection.holds(version: 9)
            #expect(log.states == [.connecting, .ended])
            connection.stop()
            connection.start()
            try await eventually { server.peers.count == 2 }
            connection.stop()
        }
    }

    @Test func anOverloadedServerNamesTheDelay() async throws {
        try await StreamServer.serving { peer, count in
            if count == 0 { peer.answer(503, ["Retry-After: 1"]) } else { peer.openStream(": up\n\n") }
        } _: { server in
            let connection = StaleConnection.test(server, log)
            let start = Date()
            connection.start()
            defer { connection.stop() }
            try await eventually { server.peers.count == 2 }
            #expect(Date().timeIntervalSince(start) >= 1)
            try await eventually { log.losses == ["the server answered HTTP 503"] }
        }
    }

    @Test func redirectsAreFollowedAndKeepSecretsHome() async throws {
        try await StreamServer.serving { peer, _ in
            peer.openStream(staleEvent(2))
        } _: { target in
            let location = "http://localhost:\(target.port)/elsewhere?x=1"
            try await StreamServer.serving { peer, count in
                if count == 0 {
                    peer.answer(307, ["Location: /v1/other"])
                } else {
                    peer.answer(301, ["Location: \(location)"])
                }
            } _: { server in
                let connection = StaleConnection.test(server, log) {
                    $0.headers = ["Authorization": "Bearer x", "X-A": "b"]
                }
                connection.start()
                defer { connection.stop() }
                try await eventually { log.versions == [2] }
                #expect(server.peers.map(\.path) == ["/v1/events?topic=PUSH_RC", "/v1/other"])
                #expect(server.peers.allSatisfy { $0.headers["authorization"] == "Bearer x" })
                let peer = try target.peers[required: 0]
                #expect(peer.path == "/elsewhere?x=1" && peer.headers["authorization"] == nil)
                #expect(try peer.headers["x-a"] == nil && server.peers[required: 1].headers["x-a"] == "b")
                #expect(peer.headers["accept"] == "text/event-stream")
            }
        }
    }

    @Test func aRedirectThatLeadsNowhereIsAnErrorAndNoLoop() async throws {
        for location in [[], ["Location:"], ["Location: ftp://127.0.0.1/"]] {
            let log = ConnectionLog()
            try await StreamServer.serving { peer, _ in
                peer.answer(301, location)
            } _: { server in
                let connection = StaleConnection.test(server, log) {
                    $0.reconnectDelay = 100; $0.longestReconnectDelay = 100
                }
                connection.start()
                defer { connection.stop() }
                try await eventually { log.losses.count == 1 }
                #expect(server.peers.count == 1)
            }
        }
        try await StreamServer.serving { peer, _ in
            peer.answer(302, ["Location: /again"])
        } _: { server in
            let connection = StaleConnection.test(server, log) {
                $0.reconnectDelay = 100; $0.longestReconnectDelay = 100
            }
            connection.start()
            defer { connection.stop() }
            try await eventually { log.losses == ["more than 20 redirects in a row"] }
            #expect(server.peers.count == 21)
        }
    }

    @Test func aNewNetworkIsTriedAtOnce() async throws {
        try await StreamServer.serving { peer, count in
            if count == 0 { peer.answer(503, ["Retry-After: 3000"]) } else { peer.openStream(staleEvent(count)) }
        } _: { server in
            let connection = StaleConnection.test(server, log)
            connection.start()
            defer { connection.stop() }
            try await eventually { log.losses.count == 1 }
            connection.networkChanged()
            try await eventually { log.versions == [1] }
            connection.networkChanged()
            try await eventually { log.versions == [1, 2] }
            let left = try server.peers[required: 1]
            try await eventually { left.isAbandoned }
        }
    }

    @Test func theBackgroundClosesAndTheForegroundResumes() async throws {
        try await StreamServer.serving { peer, count in
            peer.openStream(staleEvent(count + 2, cursor: "e.\(count)") + syncedEvent("e.\(count)"))
        } _: { server in
            let connection = StaleConnection.test(server, log)
            connection.enterBackground()
            connection.start()
            connection.enterForeground()
            defer { connection.stop() }
            try await eventually { log.cursors == ["e.0"] }
            connection.enterBackground()
            let left = try server.peers[required: 0]
            try await eventually { left.isAbandoned && log.states.last == .idle }
            #expect(server.peers.count == 1)
            connection.networkChanged()
            connection.enterForeground()
            try await eventually { log.cursors == ["e.0", "e.1"] }
            #expect(server.peers.map { $0.headers["last-event-id"] } == [nil, "e.0"])
        }
    }

    @Test func nothingIsReportedOnceStopped() async throws {
        try await StreamServer.serving { peer, _ in
            peer.openStream(staleEvent(2))
        } _: { server in
            let connection = StaleConnection.test(server, log)
            connection.start()
            try await eventually { log.versions == [2] }
            connection.stop()
            let count = log.events.count
            let left = try server.peers[required: 0]
            left.send(staleEvent(3))
            try await eventually { left.isAbandoned }
            #expect(log.events.count == count)
        }
    }

    @Test func theVersionHeldIsSentWithTheNextReconnect() async throws {
        try await StreamServer.serving { server in
            let connection = StaleConnection.test(server, log, have: 0)
            connection.start()
            defer { connection.stop() }
            try await eventually { server.peers.count == 1 }
            connection.holds(version: 7)
            connection.networkChanged()
            try await eventually { server.peers.count == 2 }
            #expect(server.peers.map(\.path) == ["/v1/events?topic=PUSH_RC&have=0", "/v1/events?topic=PUSH_RC&have=7"])
        }
    }
}

extension EventStreamConnectionTests {
    private func asking(_ server: StreamServer, _ asked: TokenCounter) -> StaleConnection {
        StaleConnection.test(server, log, cursor: "e.7") { options in
            options.tokenProvider = { "token\(asked.next())" }
        }
    }

    /// An owner may take longer for a token than the reconnect delay is.
    @Test func aRefusedTokenIsNotShownAgainWhileTheOwnerIsAsked() async throws {
        try await StreamServer.serving({ peer, _ in peer.answer(503) }) { other in
            try await StreamServer.serving({ peer, count in
                if count == 0 { peer.answer(401) } else { peer.openStream(syncedEvent("e.1")) }
            }) { server in
                let asked = TokenCounter()
                let connection = StaleConnection.test(server, log) { options in
                    options.tokenProvider = {
                        let number = asked.next()
                        // Another connection comes back again and again meanwhile, by the same clock.
                        if number == 2 { try? await eventually { other.peers.count >= 10 } }
                        return "token\(number)"
                    }
                }
                let clock = StaleConnection.test(other, ConnectionLog())
                for each in [connection, clock] { each.start() }
                defer { for each in [connection, clock] { each.stop() } }
                try await eventually { server.peers.count == 2 }
                #expect(server.peers.map { $0.headers["authorization"] } == ["Bearer token1", "Bearer token2"])
                #expect(asked.count == 2)
            }
        }
    }

    @Test func aTokenIsAskedForFirstAndOnceForEachRefusal() async throws {
        try await StreamServer.serving { server in
            let asked = TokenCounter()
            let connection = asking(server, asked)
            connection.start()
            defer { connection.stop() }
            try await eventually { server.peers.count == 1 }
            #expect(try server.peers[required: 0].headers["authorization"] == "Bearer token1")
            try server.peers[required: 0].answer(401)
            try await eventually { server.peers.count == 2 }
            #expect(try server.peers[required: 1].headers["authorization"] == "Bearer token2")
            #expect(try server.peers[required: 1].headers["last-event-id"] == "e.7", "the cursor is kept")
            try server.peers[required: 1].openStream("retry: 20\n\n" + syncedEvent("e.8"))
            _ = try server.peers[required: 1].send("event: auth\ndata: {\"type\":\"expiring\",\"inMs\":30000}\n\n")
            try await eventually { asked.count == 3 }
            try server.peers[required: 1].close()
            try await eventually { server.peers.count == 3 }
            #expect(try server.peers[required: 2].headers["authorization"] == "Bearer token3")
            #expect(try server.peers[required: 2].headers["last-event-id"] == "e.8" && asked.count == 3)
        }
    }
}

private final class TokenCounter: @unchecked Sendable {
    private let lock = NSLock()
    private var asked = 0

    var count: Int { lock.withLock { asked } }

    func next() -> Int {
        lock.withLock {
            asked += 1
            return asked
        }
    }
}
