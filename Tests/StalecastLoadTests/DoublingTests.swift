import StalecastLoad
import StalecastTestSupport
import StalecastWire
import Testing

/// Tests that answers to the load's clients cost in proportion to their length.
@Suite struct DoublingTests {
    private static let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    private static let answers = [
        GrowingText("1\r\nx\r\n", after: head), GrowingText("1;a=b\r\nx\r\n", after: head),
        GrowingText("x", after: head + "1;"),
        GrowingText("A: b\r\n", after: head + "0\r\n", before: "\r\n"),
        GrowingText("X-#: y\r\n", after: "HTTP/1.1 200 OK\r\n"),
        GrowingText("x", after: "HTTP/1.1 200 OK\r\nX: "), GrowingText("\r\n", after: "HTTP/1.1"), GrowingText("\r"),
        GrowingText("9", after: "HTTP/1.1 200 OK\r\nContent-Length: ", before: "\r\n\r\n"),
    ]

    @Test(arguments: answers) func readingAnAnswerIsLinear(answer: GrowingText) throws {
        for piece in [1, 64, 1 << 15] {
            try expectLinear(upTo: 1 << 14, answer.bytes) { bytes in
                var subscriber = Subscriber(descriptor: -1)
                subscriber.phase = .awaitingHead
                bytes.withUnsafeBytes { bytes in
                    for start in stride(from: 0, to: bytes.count, by: piece) {
                        let part = UnsafeRawBufferPointer(rebasing: bytes[start..<min(start + piece, bytes.count)])
                        switch subscriber.receive(part, .poll) {
                        case .end: return
                        default: continue
                        }
                    }
                }
            }
        }
    }

    @Test(arguments: [
        GrowingText("data: {}\n\n"), GrowingText("\n"), GrowingText("x"), GrowingText(":\n"),
        GrowingText("x", after: "data: "),
        GrowingText("data: {\"latestTemplateVersionNumber\":\"#\"}\n"),
        GrowingText("\"latestTemplateVersionNumber\":\"", after: "data:"),
    ])
    func scanningEventsIsLinear(stream: GrowingText) throws {
        for piece in [1, 64, 1 << 15] {
            try expectLinear(upTo: 1 << 14, stream.bytes) { bytes in
                var scanner = EventScanner()
                bytes.withUnsafeBytes { bytes in
                    for start in stride(from: 0, to: bytes.count, by: piece) {
                        scanner.scan(UnsafeRawBufferPointer(rebasing: bytes[start..<min(start + piece, bytes.count)]))
                    }
                }
            }
        }
    }

    @Test(arguments: [
        GrowingText("X-#: y\r\n", after: "POST / HTTP/1.1\r\n", before: "\r\n"), GrowingText("\r"), GrowingText("x"),
        GrowingText("x", after: "POST / HTTP/1.1\r\nContent-Length: 99999\r\n\r\n{\"type\":\""),
    ])
    func readingAWebhookRequestIsLinear(request: GrowingText) throws {
        let reader = ReceiverLoop.RequestReader(namespace: .firebase)
        try expectLinear(upTo: 1 << 14, request.bytes) { $0.withUnsafeBytes { _ = reader.read($0) } }
    }
}
