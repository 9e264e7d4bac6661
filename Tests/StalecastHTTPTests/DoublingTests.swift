import NIOHTTP1
import StalecastHTTP
import StalecastTestSupport
import StalecastWire
import Testing

/// Requests of strangers cost in proportion to their length.
@Suite struct DoublingTests {
    private static func read(_ target: String, _ fields: [(String, String)]) throws {
        let head = HTTPRequestHead(version: .http1_1, method: .GET, uri: target, headers: HTTPHeaders(fields))
        _ = try RequestHead(head, hosts: .only(["config.example.com"]))
    }

    @Test(arguments: [
        "X-#", "Host", "Connection", "Expect", "Transfer-Encoding", "Content-Length", "Upgrade",
    ])
    func readingManyFieldsIsLinear(name: String) throws {
        try expectLinear(upTo: 2048) { count in
            (0..<count).map { (name == "X-#" ? "X-\($0)" : name, "close, a") }
        } _: {
            try Self.read("/", $0)
        }
    }

    @Test(arguments: ["Host", "Connection", "Expect", "Transfer-Encoding", "Content-Length"])
    func readingALongFieldIsLinear(name: String) throws {
        for piece in ["a,", " ", "9", "close,", ":", "[", "a.", "\t,"] {
            try expectLinear(upTo: 1 << 14, GrowingText(piece, before: "x").text) { text in
                try Self.read("/", [("Host", "a"), (name, text)])
            }
        }
    }

    @Test(arguments: ["/", "http://", "http://h/?", "HTTP://h:"]) func readingALongTargetIsLinear(head: String) throws {
        for piece in ["a", "/", "?", "#", "%41", "&a=b", ":", "@"] {
            try expectLinear(upTo: 1 << 14, GrowingText(piece, after: head).text) { try Self.read($0, [("Host", "a")]) }
        }
    }

    @Test(arguments: [
        GrowingText("a_", before: "=1"), GrowingText("a#=1&"), GrowingText("a=#&"), GrowingText("&"), GrowingText("="),
        GrowingText("%41"), GrowingText("+"), GrowingText("%"), GrowingText("é=ü&"), GrowingText("_", before: "=1"),
        GrowingText("%cc%95%cc%80", after: "a", before: "=1"),
    ])
    func readingAQueryIsLinear(query: GrowingText) throws {
        try expectLinear(upTo: 1 << 14, query.text) { _ = QueryParameters($0) }
        try expectLinear(upTo: 1 << 14, query.text) { _ = PercentEncoding.decode($0, plusIsBlank: true) }
    }

    @Test(arguments: [" ", "\"", "W/", "a", "a,", "\t"]) func readingTagsIsLinear(piece: String) throws {
        try expectLinear(upTo: 1 << 14, GrowingText(piece, before: "x").text) {
            _ = ETagSpelling.names("etag-1", in: $0)
        }
    }

    // MARK: Frames

    private static let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

    /// Feeds a request to the state machine in front of the parser, in pieces.
    private static func frame(_ bytes: [UInt8], piece: Int) throws {
        var limits = ConnectionLimits()
        limits.maxHeadBytes = 1 << 20
        var state = ConnectionState(limits: limits, at: 0)
        let parsed = try RequestHead(
            HTTPRequestHead(
                version: .http1_1, method: .POST, uri: "/",
                headers: HTTPHeaders([("Host", "a"), ("Transfer-Encoding", "chunked")])))
        var index = 0
        var began = false
        while index < bytes.count {
            let end = min(index + piece, bytes.count)
            let take = bytes[index..<end].withUnsafeBytes { state.take($0, at: 1) }
            guard case .pass(let count) = take else { return }
            index += count
            // The parser would have found the end of the head where the frame did.
            if !began, count < end - index + count || index == head.utf8.count {
                began = true
                if state.received(parsed, bodyLimit: .max, at: 1) != nil { return }
            }
        }
    }

    @Test(arguments: [
        GrowingText("X-#: y\r\n", after: "GET / HTTP/1.1\r\n"), GrowingText("x", after: "GET /"),
        GrowingText("x", after: "GET / HTTP/1.1\r\nX: "), GrowingText("\r\n"),
        GrowingText("\r", after: "GET / HTTP/1.1\r\nX:"),
        GrowingText("\n", after: "GET / HTTP/1.1\r\nX:"),
        GrowingText("1\r\nx\r\n", after: head), GrowingText("1;a=b\r\nx\r\n", after: head),
        GrowingText("x", after: head + "1;"), GrowingText("A: b\r\n", after: head + "0\r\n"),
        GrowingText("b", after: head + "0\r\nA: "), GrowingText("0", after: head),
    ])
    func framingIsLinear(request: GrowingText) throws {
        for piece in [1, 7, 4096] {
            try expectLinear(upTo: 1 << 15, request.bytes) { try Self.frame($0, piece: piece) }
        }
    }
}
