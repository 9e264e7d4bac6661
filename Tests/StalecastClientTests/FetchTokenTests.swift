import Foundation
import StalecastClient
import Synchronization
import Testing

/// Fetches show the token that the options' provider gives, as streams do.
@Suite struct FetchTokenTests {
    private static let content = #"{"state":"UPDATE","entries":{"a":"1"},"templateVersion":"1"}"#

    /// Gives `t1`, `t2`, …; counts.
    private final class Provider: Sendable {
        private let count = Mutex(0)
        var asked: Int { count.withLock { $0 } }

        func next() -> String {
            count.withLock { count in
                count += 1
                return "t\(count)"
            }
        }
    }

    private func app(
        _ transport: ScriptedTransport, headers: [String: String] = [:],
        _ provider: @escaping @Sendable () async throws -> String
    ) -> StalecastApp {
        .test(transport, clock: TestClock()) { options in
            options.headers = headers
            options.connection.tokenProvider = provider
        }
    }

    private func shown(_ transport: ScriptedTransport) -> [String?] {
        transport.received.map { $0.headers["Authorization"] }
    }

    @Test func aTokenIsAskedForOnceAndShown() async throws {
        let (transport, provider) = (ScriptedTransport { _, _ in .json(Self.content) }, Provider())
        let app = app(transport) { provider.next() }
        defer { app.delete() }
        for _ in 0..<3 { try await app.config.fetch(withExpirationDuration: 0) }
        #expect(shown(transport) == ["Bearer t1", "Bearer t1", "Bearer t1"] && provider.asked == 1)
    }

    @Test func aRefusedTokenIsReplacedOnce() async throws {
        let transport = ScriptedTransport { request, _ in
            request.headers["Authorization"] == "Bearer t2" ? .json(Self.content) : .json("{}", status: 401)
        }
        let provider = Provider()
        let app = app(transport) { provider.next() }
        defer { app.delete() }
        #expect(try await app.config.fetchAndActivate() == .successFetchedFromRemote)
        #expect(shown(transport) == ["Bearer t1", "Bearer t2"] && provider.asked == 2)
    }

    @Test func whoIsRefusedAgainIsNotAskedForMore() async throws {
        let (transport, provider) = (ScriptedTransport { _, _ in .json("{}", status: 401) }, Provider())
        let app = app(transport) { provider.next() }
        defer { app.delete() }
        await #expect(throws: (any Error).self) { try await app.config.fetch(withExpirationDuration: 0) }
        #expect(shown(transport) == ["Bearer t1", "Bearer t2"] && provider.asked == 2)
    }

    @Test func theSameTokenIsNotSentTwice() async throws {
        let transport = ScriptedTransport { _, _ in .json("{}", status: 401) }
        let app = app(transport) { "same" }
        defer { app.delete() }
        await #expect(throws: (any Error).self) { try await app.config.fetch(withExpirationDuration: 0) }
        #expect(shown(transport) == ["Bearer same"])
    }

    @Test func aHeaderOfTheAppsGoesFirst() async throws {
        let (transport, provider) = (ScriptedTransport { _, _ in .json(Self.content) }, Provider())
        let app = app(transport, headers: ["Authorization": "Bearer own"]) { provider.next() }
        defer { app.delete() }
        try await app.config.fetch(withExpirationDuration: 0)
        #expect(shown(transport) == ["Bearer own"] && provider.asked == 0)
    }

    @Test func withoutATokenTheServerDecides() async throws {
        struct None: Error {}
        let transport = ScriptedTransport { _, _ in .json(Self.content) }
        let app = app(transport) { throw None() }
        defer { app.delete() }
        try await app.config.fetch(withExpirationDuration: 0)
        #expect(shown(transport) == [nil])
    }

    @Test func theTokenReplacesAHeaderOfAnyCase() async throws {
        let transport = ScriptedTransport { request, _ in
            request.headers["Authorization"] == "Bearer t1" ? .json(Self.content) : .json("{}", status: 401)
        }
        let provider = Provider()
        let app = app(transport, headers: ["authorization": "Bearer old"]) { provider.next() }
        defer { app.delete() }
        try await app.config.fetch()
        let shown = transport.received.map { request in
            request.headers.filter { $0.key.lowercased() == "authorization" }
        }
        #expect(shown == [["authorization": "Bearer old"], ["Authorization": "Bearer t1"]])
    }
}
