import NIOCore
import StalecastStore
import StalecastWire
import Testing

/// Publishes whose answers are written by the store's writer, not by the connection's loop.
@Suite("Prompt answers", .timeLimit(.minutes(5)))
struct PromptAnswerTests {
    private static func put(_ value: String, _ fields: String = "") -> ByteBuffer {
        let body = #"{"parameters":{"p":{"defaultValue":{"value":"\#(value)"}}}}"#
        return ByteBuffer(
            string: "PUT \(ControlFixture.prefix) HTTP/1.1\r\nHost: t\r\nIf-Match: *\r\n\(fields)"
                + "Authorization: Bearer \(ControlFixture.secret)\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
    }

    private static let get = ByteBuffer(string: "GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n")

    private static func etags(_ versions: ClosedRange<Int>) -> [String] {
        versions.map { "etag-123456789012-\($0)" }
    }

    @Test func requestsThatFollowEachOtherAreAnsweredInTurn() async throws {
        try await ControlFixture.serving { server async throws in
            try await RawConnection.open(port: server.port) { inbound, outbound in
                var pieces = inbound.makeAsyncIterator()
                var bytes: [UInt8] = []
                for number in 1...40 {
                    // After every third the loop answers another request of the same connection.
                    for request in number % 3 == 0 ? [Self.put("\(number)"), Self.get] : [Self.put("\(number)")] {
                        bytes = []
                        try await outbound.write(request)
                        while HTTPReply.all(in: bytes).isEmpty, let piece = try await pieces.next() {
                            bytes += piece.readableBytesView
                        }
                        let reply = try #require(HTTPReply.all(in: bytes).first)
                        #expect(reply.status == 200)
                        #expect(reply.headers["etag"] == (request == Self.get ? nil : Self.etags(number...number)[0]))
                    }
                }
                outbound.finish()
                #expect(try await pieces.next() == nil)
            }
        }
    }

    @Test(arguments: ["", "Connection: close\r\n"])
    func requestsThatWaitForNoAnswerAreAnsweredInTheirOrder(last fields: String) async throws {
        try await ControlFixture.serving { server async throws in
            try await RawConnection.open(port: server.port) { inbound, outbound in
                for number in 1...30 { try await outbound.write(Self.put("\(number)", number == 30 ? fields : "")) }
                // The connection ends behind the last answer.
                if fields.isEmpty { outbound.finish() }
                let replies = HTTPReply.all(in: await RawConnection.collect(inbound))
                #expect(replies.map { $0.headers["etag"] ?? "" } == Self.etags(1...30))
            }
        }
    }

    /// The socket takes only a part of one answer, which the loop completes.
    @Test func aClientThatReadsLateGetsEachAnswerWhole() async throws {
        let (count, value) = (400, String(repeating: "v", count: 15_000))
        try await ControlFixture.serving { server async throws in
            try await RawConnection.open(port: server.port, receiveBuffer: 4096) { inbound, outbound in
                let bytes = try await withThrowingTaskGroup(of: [UInt8].self) { group in
                    group.addTask {
                        var isBlocked = false
                        for _ in 1...count {
                            let before = server.store.head()
                            try await outbound.write(Self.put(value))
                            // Alone: only then does the store's thread answer, until an answer waits for the client.
                            let end = ContinuousClock.now + .seconds(1)
                            while !isBlocked, server.store.head() == before {
                                isBlocked = ContinuousClock.now > end
                                try await Task.sleep(for: .milliseconds(1))
                            }
                        }
                        outbound.finish()
                        return []
                    }
                    // Until the server goes on no more, because nothing is read.
                    var (head, before) = (server.store.head(), CommitSequence.max)
                    while head != before {
                        before = head
                        try await Task.sleep(for: .milliseconds(1500))
                        head = server.store.head()
                    }
                    let bytes = await RawConnection.collect(inbound)
                    try await group.waitForAll()
                    return bytes
                }
                let replies = HTTPReply.all(in: bytes)
                #expect(replies.map { $0.headers["etag"] ?? "" } == Self.etags(1...count))
                #expect(replies.allSatisfy { $0.text.contains(value) })
            }
        }
    }
}
