import StalecastCluster
import StalecastRecords
import StalecastStore
import StalecastTestSupport
import StalecastWire
import Testing

@Suite struct LogEntryTests {
    private static func entry(_ content: [UInt8], _ chunks: inout [[UInt8]], seed: UInt64 = 1) -> LogEntry {
        var random = SeededRandom(seed: seed)
        let before = LogHead("41 \(PublishID.random(using: &random))")!
        let metadata = VersionMetadata(
            number: 7, updateTime: Timestamp("2026-11-22T10:00:00.000001Z")!,
            updateUser: UpdateUser(name: "Ö", email: "a@b"), description: "line\n\"two\"", updateOrigin: .console,
            updateType: .rollback, rollbackSource: 3)
        let change = TemplateChange(
            scope: Scope(project: .demo, namespace: .firebaseServer), sequence: 42, metadata: metadata,
            etag: "etag-1-7", changedKeys: ["a", "b"], notes: ChangeNotes(isUrgent: true))
        let stored = LogEntry.storing(content)
        chunks = stored.chunks
        return LogEntry(
            change: change, publish: .random(using: &random), after: before, node: "n1", fetchWindowMs: 500,
            content: stored.0)
    }

    @Test func whatIsWrittenIsRead() throws {
        var chunks: [[UInt8]] = []
        for content in [[], Array("{}".utf8), [UInt8](repeating: 0x20, count: 3_000_000)] {
            let entry = Self.entry(content, &chunks)
            #expect(chunks.isEmpty)
            #expect(try LogEntry(entry.encoded, at: 42) == entry)
        }
    }

    @Test func aLongContentStandsBesideItsEntry() throws {
        var random = SeededRandom(seed: 2)
        let content = (0..<2_500_000).map { _ in UInt8.random(in: 0...255, using: &random) }
        var chunks: [[UInt8]] = []
        let entry = Self.entry(content, &chunks)
        #expect(chunks.count == 3)
        #expect(chunks.allSatisfy { $0.count <= LogEntry.chunkSize })
        let read = try LogEntry(entry.encoded, at: 42)
        #expect(read == entry)
        guard case .beside(let key) = read.content else { throw LogError.unreadable("not beside") }
        #expect(try LogEntry.content(key, from: chunks) == content)
        #expect(throws: LogError.self) { try LogEntry.content(key, from: chunks.reversed()) }
        #expect(throws: LogError.self) { try LogEntry.content(key, from: Array(chunks.dropLast())) }
    }

    @Test func aStepOfAReleaseIsWrittenAndRead() throws {
        var chunks: [[UInt8]] = []
        let version = Self.entry([], &chunks)
        let scope = version.change.scope
        var policy: JSONObject = ["stages": ["1%", "100%"], "first": ["a"]]
        policy["gates"] = ["url": ["url": "https://shop.example.org/healthy"]]
        var release = Release(scope: scope, version: 7, base: 6, policy: try ReleasePolicy(json: .object(policy)))
        let now = Timestamp(microseconds: 1_795_000_000_000_001)
        try release.begin(sequence: 41, at: now)
        try release.pause(at: now, by: "gate:loss", reason: "\"\n\u{0}", figures: ["value": .double(30.2)])
        let step = LogEntry(
            change: version.change, releases: [release], publish: version.publish, after: version.previous, node: "n1",
            content: .absent)
        #expect(try LogEntry(step.encoded, at: 42) == step)
        for end in step.encoded.indices {
            #expect(throws: LogError.self) { try LogEntry(Array(step.encoded[..<end]), at: 42) }
        }
        #expect(throws: LogError.self) { try LogEntry(step.encoded + [1], at: 42) }
        let none = LogEntry(
            change: version.change, publish: version.publish, after: version.previous, node: "n1", content: .absent)
        #expect(throws: LogError.self, "without a content and without a release it says nothing") {
            try LogEntry(none.encoded, at: 42)
        }
        let elsewhere = LogEntry(
            change: TemplateChange(
                scope: Scope(project: .demo, namespace: .firebase), sequence: 42, metadata: version.change.metadata,
                etag: "", changedKeys: nil), releases: [release], publish: version.publish,
            after: version.previous, node: "n1", content: .absent)
        #expect(throws: LogError.self) { try LogEntry(elsewhere.encoded, at: 42) }
    }

    @Test func membersOfANewerProgramAreSkipped() throws {
        var chunks: [[UInt8]] = []
        let entry = Self.entry(Array("{}".utf8), &chunks)
        let newer = Array("{\"shape\":[1],".utf8) + entry.encoded.dropFirst()
        #expect(try LogEntry(newer, at: 42) == entry)
    }

    /// Reads or refuses the bytes; must not trap.
    @Test func damageIsRefusedAndNeverTraps() {
        var chunks: [[UInt8]] = []
        let whole = Self.entry(Array("{\"parameters\":{}}".utf8), &chunks).encoded
        #expect(throws: LogError.self) { try LogEntry(whole, at: 43) }
        for end in whole.indices { #expect(throws: LogError.self) { try LogEntry(Array(whole[..<end]), at: 42) } }
        var random = SeededRandom(seed: 3)
        for _ in 0..<3000 {
            var bytes = whole
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            _ = try? LogEntry(bytes, at: 42)
        }
    }

    @Test func aHeadIsWrittenInOneWay() {
        var random = SeededRandom(seed: 4)
        let publish = PublishID.random(using: &random)
        #expect(LogHead("0") == .empty)
        #expect(LogHead("12 \(publish)")?.description == "12 \(publish)")
        for text in ["", "12", "0 \(publish)", "12  \(publish)", "12 \(publish) ", "-1 \(publish)", "12 abc"] {
            #expect(LogHead(text) == nil, "\(text)")
        }
    }

    @Test func logMetadataKeepsWhatItDoesNotKnow() throws {
        let epoch = Epoch(String(repeating: "a", count: 26))!
        let text = "{\"format\":9,\"minimumVersion\":1,\"epoch\":\"\(epoch)\",\"colour\":\"blue\"}"
        var logMetadata = try LogMetadata(Array(text.utf8), revision: 5)
        logMetadata.prunedBelow = 12
        let again = try LogMetadata(logMetadata.encoded, revision: 5)
        #expect(again == logMetadata)
        #expect(String(decoding: again.encoded, as: UTF8.self).contains("\"colour\":\"blue\""))
        #expect(throws: LogError.self) {
            try LogMetadata(Array("{\"minimumVersion\":3,\"epoch\":\"\(epoch)\"}".utf8), revision: 5)
        }
    }
}
