import StalecastWire
import Testing

/// A stream's bytes, taken apart strictly: head, chunks, events.
struct Transcript {
    let head: String
    /// True when the terminating chunk was seen.
    let isEnded: Bool
    let outputs: [SSEParser.Output]
    /// Number of whole chunks; every event is one.
    let chunks: Int

    init(_ bytes: [UInt8]) throws {
        let text = String(decoding: bytes, as: UTF8.self)
        let parts = text.split(separator: "\r\n\r\n", maxSplits: 1, omittingEmptySubsequences: false)
        head = String(parts[0])
        var body = Array((parts.count > 1 ? parts[1] : "").utf8)[...]
        guard head.contains("chunked") else {
            isEnded = false
            chunks = 0
            var parser = SSEParser()
            outputs = try parser.receive(body)
            return
        }
        var parser = SSEParser()
        var (outputs, chunks, isEnded): ([SSEParser.Output], Int, Bool) = ([], 0, false)
        while let line = body.firstIndex(of: 0x0A) {
            let size = try #require(Int(String(decoding: body[..<(line - 1)], as: UTF8.self), radix: 16))
            let (start, end) = (line + 1, line + 1 + size)
            guard end + 2 <= body.endIndex else { break }
            #expect(Array(body[end..<end + 2]) == [0x0D, 0x0A], "a chunk must end where it says")
            if size == 0 { isEnded = true } else { chunks += 1 }
            outputs += try parser.receive(body[start..<end])
            body = body[(end + 2)...]
        }
        (self.outputs, self.chunks, self.isEnded) = (outputs, chunks, isEnded)
    }

    var events: [ServerSentEvent] {
        outputs.compactMap { if case .event(let event) = $0 { event } else { nil } }
    }

    /// Versions of the unnamed events, in order.
    var versions: [VersionNumber] {
        events.filter { $0.type == "message" }.compactMap { event in
            (try? JSONValue.parse(event.data.utf8))?["latestTemplateVersionNumber"]?.versionNumber
        }
    }

    var isSynced: Bool { events.contains { $0.type == "synced" } }
}

extension RawClient {
    func transcript() throws -> Transcript { try Transcript(received) }

    /// Reads a stream until it has delivered a version.
    func read(untilVersion version: VersionNumber, for seconds: Double = 60) throws {
        try read(for: seconds) { $0.text.contains("\"latestTemplateVersionNumber\":\"\(version)\"") }
    }
}
