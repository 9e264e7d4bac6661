import Foundation
import StalecastClient
import StalecastTestServers
import StalecastTestSupport
import Testing

/// An owner that does not take what comes: the connection reads no more, so that the server notices.
@Suite struct SlowOwnerTests {
    private let gate = Gate()
    private let seen = ConnectionLog()
    private let padding = ":" + String(repeating: "x", count: 4000) + "\n"

    private func connection(_ server: StreamServer) -> StaleConnection {
        StaleConnection(endpoint: server.url, topics: ["PUSH_RC"]) { [gate, seen] event in
            gate.pass()
            seen.hear(event)
        }
    }

    @Test func aSlowOwnerIsNotFloodedAndLosesNothing() async throws {
        let total = 3_000
        try await StreamServer.serving { server in
            let connection = connection(server)
            connection.start()
            defer {
                gate.open()
                connection.stop()
            }
            try await eventually { server.peers.count == 1 }
            let peer = try server.peers[required: 0]
            peer.openStream()
            Thread.detachNewThread { for version in 1...total { peer.send(padding + staleEvent(version)) } }
            gate.open()
            try await eventually { seen.versions.last == Int64(total) }
            #expect(seen.versions == (1...Int64(total)).map { $0 })
        }
    }

    /// libcurl forgets a pause that began before its connection was there.
    @Test func aConnectionThatIsNewIsNotReadEither() async throws {
        let limit = 64 << 20
        try await StreamServer.serving { server in
            let connection = connection(server)
            connection.start()
            defer {
                gate.open()
                connection.stop()
            }
            try await eventually { server.peers.count == 1 }
            try server.peers[required: 0].openStream()
            let events = (1...1_000).map { padding + staleEvent($0) }.joined()
            let first = try await server.peers[required: 0].sendUntilStalled(events, limit: limit)
            #expect(first < limit)
            connection.networkChanged()
            try await eventually { server.peers.count == 2 }
            try server.peers[required: 1].openStream()
            let second = try await server.peers[required: 1].sendUntilStalled(events, limit: limit)
            #expect(second < limit)
        }
    }
}

/// Blocks its callers until it is opened.
private final class Gate: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)

    func pass() {
        semaphore.wait()
        semaphore.signal()
    }

    func open() { semaphore.signal() }
}
