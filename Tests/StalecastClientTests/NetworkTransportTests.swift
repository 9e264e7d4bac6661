import Foundation
import StalecastClient
import StalecastTestServers
import StalecastTestSupport
import Testing

/// Requests that are read to their end, over the network.
@Suite struct NetworkTransportTests {
    private func send(_ server: StreamServer, timeout: TimeInterval = 30) async throws -> TransportResponse {
        let headers = [
            "Authorization": "Bearer s", "X-Goog-Api-Key": "k", "X-Tenant-Token": "t",
            "Content-Type": "application/json",
        ]
        return try await NetworkTransport.shared.send(
            TransportRequest(
                url: server.url.appendingPathComponent("a"), headers: headers, body: Data("{}".utf8), timeout: timeout))
    }

    @Test func anAnswerArrivesWhole() async throws {
        try await StreamServer.serving { peer, _ in
            peer.answer(404, ["ETag: e"], "gone")
        } _: { server in
            let answer = try await send(server)
            #expect(answer.status == 404 && answer.headers["etag"] == "e" && answer.body == Data("gone".utf8))
            #expect(server.peers.first?.line == "POST /a HTTP/1.1" && server.peers.first?.body == "{}")
        }
    }

    @Test(.timeLimit(.minutes(5))) func aServerIsTrustedByTheAuthoritiesNamed() async throws {
        let server = try TLSTestServer()
        func ask(_ file: String?) async throws -> Int {
            var request = TransportRequest(method: "GET", url: try #require(URL(string: server.url)), timeout: 20)
            request.authorityFile = file.map(server.file)
            return try await NetworkTransport.shared.send(request).status
        }
        #expect(try await ask("ca.pem") == 200)
        for stranger in [nil, "stranger.pem", "missing.pem"] {
            await #expect(throws: (any Error).self) { try await ask(stranger) }
        }
        #expect(try await ask("ca.pem") == 200)
    }

    @Test(.timeLimit(.minutes(5))) func aSilentServerIsGivenUpInTime() async throws {
        try await StreamServer.serving { server in
            // The default would be another error, after a minute and more.
            let error = await #expect(throws: (any Error).self) { try await send(server, timeout: 1) }
            #expect(error?.localizedDescription == "no complete answer within 1.0 s")
        }
    }

    /// Each byte is a sign of life, and there is no end of them.
    @Test(.timeLimit(.minutes(5))) func anAnswerThatDripsIsGivenUpInTime() async throws {
        try await StreamServer.serving { peer, _ in
            peer.openStream(type: "application/json")
            Thread.detachNewThread { while peer.send(" ") { usleep(50_000) } }
        } _: { server in
            // On a busy machine the time is over before the server has read the request.
            repeat {
                let error = await #expect(throws: (any Error).self) { try await send(server, timeout: 1) }
                #expect(error?.localizedDescription == "no complete answer within 1.0 s")
            } while server.peers.isEmpty
            try await eventually { server.peers.first?.isAbandoned == true }
        }
    }

    @Test func anAnswerWithoutEndIsCut() async throws {
        try await StreamServer.serving { peer, _ in
            Thread.detachNewThread {
                peer.openStream(type: "application/json")
                let piece = [UInt8](repeating: 0x20, count: 1 << 20)
                while peer.send(piece) {}
            }
        } _: { server in
            let error = await #expect(throws: (any Error).self) { try await send(server) }
            #expect(error?.localizedDescription.hasPrefix("the answer is longer than") == true)
        }
    }

    @Test func cancellingEndsIt() async throws {
        try await StreamServer.serving { server in
            let task = Task { try await send(server) }
            try await eventually { server.peers.count == 1 }
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
        }
    }

    @Test(arguments: [302, 307]) func secretsStayWithTheirOrigin(status: Int) async throws {
        try await StreamServer.serving { peer, _ in
            peer.answer(200, [], "there")
        } _: { other in
            try await StreamServer.serving { peer, count in
                let path = count == 0 ? "/b" : "\(other.url.absoluteString)/c"
                peer.answer(status, ["Location: \(path)"])
            } _: { server in
                #expect(try await send(server).body == Data("there".utf8))
                #expect(try server.peers.count == 2 && server.peers[required: 1].headers["x-tenant-token"] == "t")
                let headers = try #require(other.peers.first?.headers)
                for name in ["authorization", "x-goog-api-key", "x-tenant-token"] { #expect(headers[name] == nil) }
                #expect(other.peers.first?.line == (status == 307 ? "POST" : "GET") + " /c HTTP/1.1")
            }
        }
    }
}
