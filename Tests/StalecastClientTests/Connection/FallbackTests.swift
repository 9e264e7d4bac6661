import Foundation
import StalecastClient
import StalecastTestServers
import StalecastTestSupport
import Synchronization
import Testing

/// Tests long-poll when no stream comes through; and Firebase's own stream.
@Suite struct FallbackTests {
    private let log = ConnectionLog()

    @Test func aProxyThatHoldsTheStreamBackMakesItPoll() async throws {
        try await StreamServer.serving { peer, _ in
            guard peer.path.hasPrefix("/v1/poll") else { return peer.openStream() }
            if peer.path.contains("wait=0") { return peer.answer(json: #"{"cursor":"e.1","messages":[]}"#) }
            if peer.path.hasSuffix("cursor=e.1") {
                peer.answer(json: #"{"cursor":"e.2","messages":[\#(staleJSON(2))]}"#)
            }
        } _: { server in
            let connection = StaleConnection.test(server, log, have: 1) { options in
                options.openingLimit = 0.5
                options.pollWait = 20
            }
            connection.start()
            defer { connection.stop() }
            try await eventually { log.versions == [2] && log.cursors == ["e.1", "e.2"] }
            let held = "/v1/poll?topic=PUSH_RC&have=1&wait=20000ms"
            try await eventually { server.peers.last?.path == "\(held)&cursor=e.2" }
            let paths = server.peers.map(\.path)
            #expect(paths.first { $0.hasPrefix("/v1/poll") } == "/v1/poll?topic=PUSH_RC&have=1&wait=0")
            #expect(paths.contains("\(held)&cursor=e.1"))
            // On a busy machine more than the stream's answers may come late.
            #expect(log.losses.count >= 2 && log.losses.allSatisfy { $0.hasPrefix("no answer within") })
            #expect(log.states.last == .open(transport: "poll"))
        }
    }

    @Test func aCaptivePortalIsOutlived() async throws {
        let portal = "<html>Please log in</html>"
        try await StreamServer.serving { peer, count in
            if count < 8 { return peer.answer(200, ["Content-Type: text/html"], portal) }
            if peer.path.hasPrefix("/v1/poll") {
                peer.answer(json: #"{"cursor":"e.1","messages":[\#(staleJSON(2))]}"#)
            } else {
                peer.openStream(staleEvent(2) + syncedEvent("e.1"))
            }
        } _: { server in
            let connection = StaleConnection.test(server, log)
            connection.start()
            defer { connection.stop() }
            try await eventually { log.versions == [2] && log.cursors == ["e.1"] }
            let kinds = server.peers.prefix(8).map { $0.path.hasPrefix("/v1/poll") ? "poll" : "events" }
            #expect(kinds == ["events", "poll", "poll", "poll", "events", "poll", "poll", "poll"])
        }
    }

    @Test func theStreamIsUsedAgainAsSoonAsItComesThrough() async throws {
        let isPolling = Mutex(false)
        try await StreamServer.serving { peer, _ in
            if peer.path.hasPrefix("/v1/poll") {
                if peer.path.contains("wait=0") {
                    peer.answer(json: #"{"cursor":"e.1","messages":[\#(staleJSON(2))]}"#)
                } else {
                    isPolling.withLock { $0 = true }
                }
            } else if !isPolling.withLock({ $0 }) {
                peer.answer(200, ["Content-Type: text/html"], "portal")
            } else {
                peer.openStream(staleEvent(2) + staleEvent(3, cursor: "e.2"))
            }
        } _: { server in
            let connection = StaleConnection.test(server, log) { $0.streamRetryInterval = 2 }
            connection.start()
            defer { connection.stop() }
            // On a busy machine the stream is tried again before the poll is answered.
            try await eventually {
                let paths = server.peers.map(\.path)
                return paths.last?.hasPrefix("/v1/events") == true && paths.contains { $0.contains("cursor=e.1") }
                    && log.versions == [2]
            }
            let held = try #require(server.peers.first { $0.path.contains("cursor=e.1") })
            let stream = try #require(server.peers.last { $0.path.hasPrefix("/v1/events") })
            #expect(stream.headers["last-event-id"] == "e.1", "\(server.peers.map(\.path))")
            #expect(!held.isAbandoned, "until the stream is known to come through, the poll goes on")
            stream.send(syncedEvent("e.2"))
            try await eventually { log.versions == [2, 3] && log.cursors == ["e.1", "e.2"] && held.isAbandoned }
            #expect(log.states.last == .open(transport: "sse"))
            stream.send(staleEvent(4, cursor: "e.3"))
            try await eventually { log.versions == [2, 3, 4] }
        }
    }

    @Test func aPollThatSaysNothingAtOnceIsNotAskedInALoop() async throws {
        try await StreamServer.serving { peer, _ in
            guard peer.path.hasPrefix("/v1/poll") else { return peer.answer(200, ["Content-Type: text/html"]) }
            peer.answer(json: #"{"cursor":"e.1","messages":[]}"#)
        } _: { server in
            let connection = StaleConnection.test(server, log)
            let start = Date()
            connection.start()
            defer { connection.stop() }
            try await eventually { server.peers.count >= 5 }
            #expect(Date().timeIntervalSince(start) >= 2)
        }
    }

    @Test func aPollsResetAndNonsenseAreReported() async throws {
        try await StreamServer.serving { peer, _ in
            guard peer.path.hasPrefix("/v1/poll") else { return peer.answer(200, ["Content-Type: text/html"]) }
            guard peer.path.contains("wait=0") else { return }
            peer.answer(json: #"{"cursor":"f.1","reset":{"reason":"unknown-epoch"},"messages":[7,\#(staleJSON(1))]}"#)
        } _: { server in
            let connection = StaleConnection.test(server, log, cursor: "e.9")
            connection.start()
            defer { connection.stop() }
            try await eventually { log.cursors == ["f.1"] }
            let told = log.events.filter { if case .state = $0 { false } else { true } }
            #expect(told.count == 4 && told.first == .reset(reason: "unknown-epoch") && log.versions == [1])
            let second = try server.peers[required: 1]
            #expect(second.path == "/v1/poll?topic=PUSH_RC&wait=0&cursor=e.9")
        }
    }

    @Test func aRepeatedlyRefusedPollMakesWayForTheStream() async throws {
        try await StreamServer.serving { peer, count in
            if count == 0 { return peer.answer(200, ["Content-Type: text/html"]) }
            if peer.path.hasPrefix("/v1/poll") { return peer.answer(500) }
            peer.openStream(staleEvent(2))
        } _: { server in
            let connection = StaleConnection.test(server, log)
            connection.start()
            defer { connection.stop() }
            try await eventually { log.versions == [2] }
            #expect(server.peers.count == 5)
        }
    }
}
