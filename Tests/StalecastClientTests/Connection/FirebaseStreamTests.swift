import Foundation
import StalecastClient
import StalecastTestServers
import StalecastTestSupport
import Synchronization
import Testing

/// Firebase's own stream as a transport.
@Suite struct FirebaseStreamTests {
    private struct Unreachable: Error {}

    private let log = ConnectionLog()

    private func connection(
        _ server: StreamServer, have: Int64? = nil, failing failures: Int = 0
    ) -> StaleConnection {
        let asked = Mutex(0)
        return StaleConnection.test(server, log, have: have) { options in
            options.dialect = .firebase(
                FirebaseStreamRequest(project: "demo", namespace: "firebase", apiKey: "k&y", appID: "1:2:ios:3") {
                    let count = asked.withLock { asked in
                        asked += 1
                        return asked
                    }
                    if count <= failures { throw Unreachable() }
                    return ("instance", "token\(count)")
                })
        }
    }

    @Test func invalidationsBecomeNotices() async throws {
        try await StreamServer.serving { server in
            let connection = connection(server, have: 6, failing: 2)
            connection.start()
            defer { connection.stop() }
            try await eventually { server.peers.count == 1 }
            let peer = try server.peers[required: 0]
            #expect(
                peer.line == "POST /v1/projects/demo/namespaces/firebase:streamFetchInvalidations?key=k%26y HTTP/1.1")
            #expect(peer.headers["x-goog-api-key"] == "k&y")
            #expect(peer.headers["x-goog-firebase-installations-auth"] == "token3")
            #expect(peer.headers["content-type"] == "application/json")
            #expect(
                peer.body.contains(#""lastKnownVersionNumber":"6""#)
                    && peer.body.contains(#""appInstanceId":"instance""#))
            peer.send("HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n\n")
            try await eventually { log.states.last == .open(transport: "firebase") }
            // Google's array, cut anywhere; an old version says nothing.
            for piece in [
                "[{\"latestTemplate", "VersionNumber\": \"6\"\n}\n", ",{\"latestTemplateVersionNumber\":7}", ",\n{",
            ] {
                peer.send(piece)
            }
            try await eventually { log.versions == [7] }
            peer.send("\"latestTemplateVersionNumber\":\"9\"}{\"latestTemplateVersionNumber\":\"11\"}")
            try await eventually { log.versions == [7, 9, 11] }
            let notice = try #require(log.notices.first)
            #expect(notice.topic == "" && notice.namespace == "firebase" && notice.data["CONFIG_STATE"] == "STALE")
            peer.send(#"{"a":"}","b":"\"{","c":{"d":1},"latestTemplateVersionNumber":"12"}"#)
            try await eventually("braces in texts and objects within end nothing") { log.versions == [7, 9, 11, 12] }
            // Longer than any message: skipped, and what follows is understood.
            peer.send("{\"x\":\"" + String(repeating: "}", count: 100_000) + "\"}{\"latestTemplateVersionNumber\":13}")
            try await eventually { log.versions == [7, 9, 11, 12, 13] }
            #expect(log.events.contains(.invalidMessage("a message is longer than 65536 bytes")))
            peer.send("{nonsense}")
            try await eventually { if case .invalidMessage = log.events.last { true } else { false } }
            connection.holds(version: 11)
            peer.close()
            try await eventually { server.peers.count == 2 }
            #expect(try server.peers[required: 1].body.contains(#""lastKnownVersionNumber":"11""#))
        }
    }

    @Test func theFeatureCanBeSwitchedOff() async throws {
        try await StreamServer.serving { peer, _ in
            peer.openStream("{\"featureDisabled\":false}{\"featureDisabled\": true}", type: "application/json")
        } _: { server in
            let connection = connection(server)
            connection.start()
            defer { connection.stop() }
            try await eventually { log.events.last == .unavailable }
            #expect(log.events.filter { $0 == .unavailable }.count == 1)
        }
    }

    @Test func theServerMayAskForAPause() async throws {
        try await StreamServer.serving { peer, count in
            guard count == 0 else { return }
            peer.openStream(
                "{\"latestTemplateVersionNumber\":\"7\",\"retryIntervalSeconds\":1}", type: "application/json")
            peer.close()
        } _: { server in
            let connection = connection(server)
            let start = Date()
            connection.start()
            defer { connection.stop() }
            try await eventually { server.peers.count == 2 && log.versions == [7] }
            #expect(Date().timeIntervalSince(start) >= 1)
        }
    }
}
