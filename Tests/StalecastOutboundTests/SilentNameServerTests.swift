import Foundation
import StalecastOutbound
import StalecastTestServers
import StalecastTestSupport
import Testing

/// Needs a machine whose only name server never answers; `deploy/with-silent-dns.sh` makes one for a command and names
/// its address in `STALECAST_SILENT_DNS`. One after the other: they share its `/etc/hosts`.
@Suite(
    .serialized,
    .enabled(if: ProcessInfo.processInfo.environment["STALECAST_SILENT_DNS"] != nil, "no silent name server"))
struct SilentNameServerTests {
    @Test func thousandsOfLookupsThatTimeOutNeitherStopTheLoopNorPileUp() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            try await EngineFixture.running { fixture in
                let lookups = Task { () -> Set<OutboundFailure.Reason?> in
                    await withTaskGroup(of: OutboundFailure.Reason?.self) { group in
                        for number in 0..<3000 {
                            let request = try? fixture.request("http://host-\(number).example/") {
                                $0.limits.timeout = .milliseconds(20)
                            }
                            group.addTask {
                                guard let request else { return nil }
                                return await fixture.engine.send(request).failure
                            }
                        }
                        return await group.reduce(into: []) { $0.insert($1) }
                    }
                }
                // Requests that need no lookup go on meanwhile.
                for _ in 0..<200 { #expect(await Self.status(fixture, server) == 204) }
                #expect(await lookups.value == [.dnsTimeout])
                // Figures are those of the loop's last turn.
                try await eventually { fixture.engine.figures.lookups == 0 }
                #expect(fixture.engine.figures.longestTurn < 5_000_000_000)
            }
        }
    }

    /// Each had a connection, which the server ended with its answer: nothing says that they will be looked up again.
    @Test(.timeLimit(.minutes(5))) func hostsThatWereReachedBeforeAreNotLookedUpAllAtOnce() async throws {
        let names = (0..<300).map { "host-\($0).reached" }
        let hosts = try String(contentsOfFile: "/etc/hosts", encoding: .utf8)
        defer { try? hosts.write(toFile: "/etc/hosts", atomically: false, encoding: .utf8) }  // ours, see the script
        let known = hosts + names.map { "127.0.0.1 \($0)\n" }.joined()
        try known.write(toFile: "/etc/hosts", atomically: false, encoding: .utf8)
        try await OriginServer.serving({ _ in .raw("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n") }) {
            server in
            let port = try #require(server.url.split(separator: ":").last)
            try await EngineFixture.running(OutboundConfiguration(maxLookups: 16)) { fixture in
                let send = { @Sendable (name: String, timeout: Duration) in
                    try await fixture.send("http://\(name):\(port)/") { $0.limits.timeout = timeout }
                }
                for name in names { #expect(try await send(name, .seconds(30)).status == 204) }
                try hosts.write(toFile: "/etc/hosts", atomically: false, encoding: .utf8)
                let before = try Self.threads()
                var most = 0
                try await withThrowingTaskGroup(of: OutboundFailure.Reason?.self) { group in
                    for name in names { group.addTask { try await send(name, .milliseconds(500)).failure } }
                    for try await failure in group {
                        #expect(failure == .dnsTimeout || failure == .dns)
                        most = max(most, try Self.threads())
                    }
                }
                #expect(most - before <= 16 + 4, "threads of 300 lookups: \(most - before)")
            }
        }
    }

    /// Asks for a name that would not be answered in time if names that are gone took every thread.
    @Test(.timeLimit(.minutes(5))) func aNameThatWasAnsweredIsNotHeldUpByNamesThatAreNot() async throws {
        let hosts = try String(contentsOfFile: "/etc/hosts", encoding: .utf8)
        defer { try? hosts.write(toFile: "/etc/hosts", atomically: false, encoding: .utf8) }
        try (hosts + "127.0.0.1 known.reached\n").write(toFile: "/etc/hosts", atomically: false, encoding: .utf8)
        try await OriginServer.serving({ _ in .raw("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n") }) {
            server in
            try await EngineFixture.running(OutboundConfiguration(maxLookups: 4)) { fixture in
                let send = { @Sendable (name: String) in
                    try await fixture.send("http://\(name):\(server.port)/") { $0.limits.timeout = .seconds(2) }
                }
                #expect(try await send("known.reached").status == 204)
                try await withThrowingTaskGroup(of: OutboundFailure.Reason?.self) { group in
                    for number in 0..<20 { group.addTask { try await send("host-\(number).gone").failure } }
                    try await eventually { fixture.engine.figures.lookups >= 2 }
                    let known = try await send("known.reached")
                    #expect(known.status == 204, "\(known)")
                    for try await failure in group { #expect(failure == .dnsTimeout) }
                }
            }
        }
    }

    @Test func aNameThatLeadsElsewhereIsFollowedByTheNextConnection() async throws {
        let hosts = try String(contentsOfFile: "/etc/hosts", encoding: .utf8)
        defer { try? hosts.write(toFile: "/etc/hosts", atomically: false, encoding: .utf8) }
        try await OriginServer.serving({ _ in .raw("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n") }) {
            server in
            try await EngineFixture.running { fixture in
                for (address, status) in [("127.0.0.1", 204), ("127.0.0.2", nil), ("127.0.0.1", 204)] {
                    try "\(address) moving.reached\n".write(toFile: "/etc/hosts", atomically: false, encoding: .utf8)
                    let outcome = try await fixture.send("http://moving.reached:\(server.port)/")
                    #expect(outcome.status == status && (status != nil || outcome.failure == .refused), "\(outcome)")
                }
            }
        }
    }

    private static func threads() throws -> Int {
        let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
        let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("Threads:") })
        return try #require(line.split(separator: "\t").last.flatMap { Int($0) })
    }

    private static func status(_ fixture: EngineFixture, _ server: OriginServer) async -> Int? {
        guard let request = try? fixture.request(server.url) else { return nil }
        return await fixture.engine.send(request).status
    }
}
