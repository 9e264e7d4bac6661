import Foundation
import StalecastOutbound
import StalecastTestServers
import Testing

/// An openssl server that shows in its answers who the client says it is.
private final class TLSServer: Sendable {
    let folder: String
    let url: String
    private let process = Process()

    /// Of `folder`: `ca.pem`, `server.pem`, `client.pem` with their keys, and `stranger.pem`, an authority of nobody.
    init() throws {
        folder = NSTemporaryDirectory() + "stalecast-tls-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try Self.authority("ca", folder)
        try Self.authority("stranger", folder)
        try Self.certify("server", folder)
        try Self.certify("client", folder)
        let output = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
        process.arguments = [
            "s_server", "-accept", "127.0.0.1:0", "-cert", "\(folder)/server.pem", "-key", "\(folder)/server.key",
            "-CAfile", "\(folder)/ca.pem", "-verify", "1", "-www",
        ]
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        process.standardInput = Pipe()
        try process.run()
        var text = ""
        while !text.contains("ACCEPT") || !text.hasSuffix("\n") {
            let piece = output.fileHandleForReading.availableData
            try #require(!piece.isEmpty, "openssl says nothing more")
            text += String(decoding: piece, as: UTF8.self)
        }
        let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("ACCEPT") })
        url = "https://127.0.0.1:\(try #require(line.split(separator: ":").last))/"
    }

    deinit {
        process.terminate()
        try? FileManager.default.removeItem(atPath: folder)  // a leftover does no harm
    }

    func file(_ name: String) -> String { "\(folder)/\(name)" }

    func copy(_ name: String, to other: String) throws {
        try Data(contentsOf: URL(fileURLWithPath: file(name)))
            .write(to: URL(fileURLWithPath: file(other)), options: .atomic)
    }

    private static let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]

    private static func authority(_ name: String, _ folder: String) throws {
        try openssl(
            ["req", "-x509"] + key + [
                "-subj", "/CN=\(name)", "-addext", "basicConstraints=critical,CA:TRUE", "-keyout",
                "\(folder)/\(name).key", "-out", "\(folder)/\(name).pem",
            ])
    }

    private static func certify(_ name: String, _ folder: String) throws {
        try openssl(
            ["req", "-x509"] + key + [
                "-CA", "\(folder)/ca.pem", "-CAkey", "\(folder)/ca.key", "-subj", "/CN=\(name)-of-ours", "-addext",
                "basicConstraints=critical,CA:FALSE", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                "\(folder)/\(name).key", "-out", "\(folder)/\(name).pem",
            ])
    }

    private static func openssl(_ words: [String]) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/openssl")
        process.arguments = words
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
    }
}

@Suite struct TLSFileTests {
    /// One request, with 1 kB of the answer's body: openssl's page about the connection.
    private static func send(_ fixture: EngineFixture, _ server: TLSServer, _ tls: OutboundTLS?) async throws
        -> OutboundOutcome
    {
        try await fixture.send(server.url) {
            $0.tls = tls
            $0.limits.maxBodyBytes = 64 << 10
        }
    }

    /// Eight handles in all: the request that cannot read its file takes the one that spoke as a client.
    @Test(.timeLimit(.minutes(1))) func aHandleWhoseFilesCannotBeReadShowsNobodysCertificateLater() async throws {
        let server = try TLSServer()
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

    @Test(.timeLimit(.minutes(1))) func anAuthorityThatIsReplacedCountsFromTheNextRequestOn() async throws {
        let server = try TLSServer()
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

    @Test(.timeLimit(.minutes(1))) func aFIFOWhereAFileShouldBeHoldsNoOtherRequest() async throws {
        let server = try TLSServer()
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
