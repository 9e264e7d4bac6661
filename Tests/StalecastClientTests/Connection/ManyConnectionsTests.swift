import Foundation
import StalecastClient
import StalecastTestServers
import StalecastTestSupport
import Testing

/// Hundreds of connections in one process, and the other way plain http can go.
@Suite struct ManyConnectionsTests {
    #if os(Linux)
        private static var threads: Int {
            (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").count) ?? 0
        }

        @Test func theyShareOneThread() async throws {
            let count = 300
            let logs = (0..<count).map { _ in ConnectionLog() }
            try await StreamServer.serving { peer, number in
                peer.openStream(syncedEvent("e.\(number)"))
            } _: { server in
                let connections = logs.map { StaleConnection.test(server, $0) }
                let before = Self.threads
                for connection in connections { connection.start() }
                defer { for connection in connections { connection.stop() } }
                try await eventually { logs.allSatisfy { $0.cursors.count == 1 } }
                for peer in server.peers { peer.send(staleEvent(2)) }
                try await eventually { logs.allSatisfy { $0.versions == [2] } }
                // Other tests run beside this one and have threads as well.
                #expect(Self.threads - before < count * 2 / 3)
                #expect(server.peers.count == count)
            }
        }
    #endif

    @Test func aConnectionThatIsDroppedIsClosed() async throws {
        try await StreamServer.serving { peer, _ in
            peer.openStream(": up\n\n")
        } _: { server in
            let log = ConnectionLog()
            do {
                let connection = StaleConnection.test(server, log)
                connection.start()
                try await eventually { log.states.last == .open(transport: "sse") }
                withExtendedLifetime(connection) {}
            }
            let left = try server.peers[required: 0]
            try await eventually { left.isAbandoned }
        }
    }

    @Test func plainHTTPCanGoOverURLSession() async throws {
        let log = ConnectionLog()
        try await StreamServer.serving { peer, count in
            switch count {
            case 0: peer.answer(307, ["Location: /elsewhere"])
            case 1: peer.openStream("retry: 1\n\n" + syncedEvent("e.1"))
            default: peer.openStream(staleEvent(3))
            }
        } _: { server in
            let connection = StaleConnection.test(server, log) { $0.prefersURLSession = true }
            connection.start()
            defer { connection.stop() }
            try await eventually { log.cursors == ["e.1"] }
            try server.peers[required: 1].send(staleEvent(2, cursor: "e.2"))
            try await eventually { log.versions == [2] }
            try server.peers[required: 1].close()
            try await eventually { log.versions == [2, 3] }
            #expect(server.peers.map(\.path) == ["/v1/events?topic=PUSH_RC", "/elsewhere", "/v1/events?topic=PUSH_RC"])
            #expect(try server.peers[required: 2].headers["last-event-id"] == "e.2")
        }
    }
}
