import Foundation
import StalecastOutbound
import StalecastTestServers
import Testing

/// Needs a machine whose only name server never answers; `deploy/with-silent-dns.sh` makes one for a command and names
/// its address in `STALECAST_SILENT_DNS`.
@Suite(.enabled(if: ProcessInfo.processInfo.environment["STALECAST_SILENT_DNS"] != nil, "no silent name server"))
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
                let end = ContinuousClock.now + .seconds(20)
                while fixture.engine.figures.lookups > 0, ContinuousClock.now < end {
                    try await Task.sleep(for: .milliseconds(5))
                }
                #expect(fixture.engine.figures.lookups == 0)
                #expect(fixture.engine.figures.longestTurn < 5_000_000_000)
            }
        }
    }

    private static func status(_ fixture: EngineFixture, _ server: OriginServer) async -> Int? {
        guard let request = try? fixture.request(server.url) else { return nil }
        return await fixture.engine.send(request).status
    }
}
