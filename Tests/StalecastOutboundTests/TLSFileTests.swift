import Foundation
import StalecastOutbound
import StalecastTestServers
import Testing

@Suite struct TLSFileTests {
    /// One request, with 1 kB of the answer's body: openssl's page about the connection.
    private static func send(_ fixture: EngineFixture, _ server: TLSTestServer, _ tls: OutboundTLS?) async throws
        -> OutboundOutcome
    {
        try await fixture.send(server.url) {
            $0.tls = tls
            $0.limits.maxBodyBytes = 64 << 10
        }
    }

    /// Eight handles in all: the request that cannot read its file takes the one that spoke as a client.
    @Test(.timeLimit(.minutes(5))) func aHandleWithUnreadableFilesShowsNoOthersCertificateLater() async throws {
        let server = try TLSTestServer()
        try await EngineFixture.running(OutboundConfiguration(keptHandles: 1)) { fixture in
            let client = OutboundTLS(
                caFile: server.file("ca.pem"), certificateFile: server.file("client.pem"),
                keyFile: server.file("client.key"))
            let outcome = try await Self.send(fixture, server, client)
            #expect(outcome.text?.contains("client-of-ours") == true)
            let others = (1...7).map { OutboundTLS(caFile: server.file("ca-\($0).pem")) }
            for number in 1...7 { try server.copy("ca.pem", to: "ca-\(number).pem") }
            for other in others { #expect(try await Self.send(fixture, server, other).status == 200) }
            let missing = OutboundTLS(caFile: server.file("missing.pem"))
            #expect(try await Self.send(fixture, server, missing).failure == .tls)
            for other in others { _ = try await Self.send(fixture, server, other) }
            let last = try await Self.send(fixture, server, nil)
            #expect(last.failure == .tlsVerify, "it trusts the system's authorities, of which ours is none")
        }
    }

    @Test(.timeLimit(.minutes(5))) func anAuthorityThatIsReplacedCountsFromTheNextRequestOn() async throws {
        let server = try TLSTestServer()
        try await EngineFixture.running { fixture in
            let tls = OutboundTLS(caFile: server.file("trusted.pem"))
            try server.copy("stranger.pem", to: "trusted.pem")
            #expect(try await Self.send(fixture, server, tls).failure == .tlsVerify)
            try server.copy("ca.pem", to: "trusted.pem")
            #expect(try await Self.send(fixture, server, tls).status == 200)
            try server.copy("stranger.pem", to: "trusted.pem")
            #expect(try await Self.send(fixture, server, tls).failure == .tlsVerify)
        }
    }

    @Test(.timeLimit(.minutes(5))) func aFIFOWhereAFileShouldBeHoldsNoOtherRequest() async throws {
        let server = try TLSTestServer()
        #expect(mkfifo(server.file("pipe"), 0o600) == 0)
        try await EngineFixture.running { fixture in
            for tls in [
                OutboundTLS(caFile: server.file("pipe")),
                OutboundTLS(
                    caFile: server.file("ca.pem"), certificateFile: server.file("pipe"),
                    keyFile: server.file("client.key")),
            ] {
                #expect(try await Self.send(fixture, server, tls).failure == .tls)
            }
            let good = try await Self.send(fixture, server, OutboundTLS(caFile: server.file("ca.pem")))
            #expect(good.status == 200)
        }
    }
}
