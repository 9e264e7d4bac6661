import CLinux
import StalecastHub
import StalecastTestServers
import StalecastWire
import Testing

/// Both halves of Edge write the transcripts that the clients' parsers are tested with.
@Suite(.timeLimit(.minutes(5))) struct GoldenTranscriptTests {
    private static let epoch = Epoch("abcdefghijklmnopqrstuvwxyz")!
    private static let query = "topic=PUSH_RC,NOBODY&project=demo"

    /// The second and the third change the same two parameters and one of them; the third goes back to the first.
    private static func announce(_ number: CommitSequence, on live: LiveEdge) throws {
        let version = VersionNumber(clamping: Int64(number))
        let metadata = VersionMetadata(
            number: version, updateTime: try #require(Timestamp("2026-11-20T13:00:00Z")), updateOrigin: .restAPI,
            updateType: number == 3 ? .rollback : .incremental, rollbackSource: number == 3 ? 1 : nil)
        live.hub.announce(
            TemplateChange(
                scope: LiveEdge.scope, sequence: number, metadata: metadata, etag: "etag-123456789012-\(version)",
                changedKeys: number == 3 ? ["pay_x"] : ["pay_x", "welcome_text"]), at: stalecast_monotonic_ns())
    }

    /// Body in HTTP/1.0, which has no chunks; the reconnect delay, which is drawn, as 3000.
    private static func body(_ client: RawClient) -> String {
        let parts = client.text.split(separator: "\r\n\r\n", maxSplits: 1, omittingEmptySubsequences: false)
        return parts.dropFirst().joined().replacing(/retry: \d+/, with: "retry: 3000")
    }

    @Test(arguments: [true, false]) func eventsAreAsWritten(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine, epoch: Self.epoch) { live in
            try Self.announce(1, on: live)
            let client = try live.stream(Self.query, version: "1.0", headers: ["Last-Event-ID: nonsense"])
            for number in CommitSequence(2)...3 {
                try Self.announce(number, on: live)
                try client.read(untilText: "id: \(Self.epoch).\(number)\n")
            }
            try client.read { $0.text.hasSuffix("\n\n") }
            #expect(try Self.body(client) == GoldenTranscript.events.text())
        }
    }

    @Test(arguments: [true, false]) func pollsAreAsWritten(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine, epoch: Self.epoch) { live in
            for number in CommitSequence(1)...3 { try Self.announce(number, on: live) }
            let client = RawClient(port: live.port)
            client.get("/v1/poll?\(Self.query)&cursor=nonsense&wait=0", version: "1.0")
            _ = try client.readToEnd()
            #expect(try Self.body(client) == GoldenTranscript.poll.text())
        }
    }

    @Test(arguments: [true, false]) func invalidationsAreAsWritten(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine, epoch: Self.epoch) { live in
            try Self.announce(1, on: live)
            let client = RawClient(port: live.port)
            let path = "/v1/projects/demo/namespaces/firebase:streamFetchInvalidations"
            client.send("POST \(path) HTTP/1.0\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
            try client.read(untilText: "\"1\"}\n")
            for number in CommitSequence(2)...3 {
                try Self.announce(number, on: live)
                try client.read(untilText: "\"\(number)\"}\n")
            }
            #expect(try Self.body(client) == GoldenTranscript.invalidations.text())
        }
    }
}
