import Foundation

/// Bodies of answers, byte for byte, in `Tests/Fixtures/wire`: what Edge's encoders write and the clients' parsers read,
/// so that neither can change alone.
package enum GoldenTranscript: String {
    /// Server-sent events: after an unknown cursor, for a known and an unknown topic; two versions live.
    case events = "events.txt"
    /// Transcript of a long-poll.
    case poll = "poll.json"
    /// A Firebase invalidation stream that knew nothing.
    case invalidations = "invalidations.txt"

    package func text() throws -> String {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        return try String(contentsOf: tests.appending(path: "Fixtures/wire/\(rawValue)"), encoding: .utf8)
    }
}
