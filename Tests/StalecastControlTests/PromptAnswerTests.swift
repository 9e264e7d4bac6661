import NIOCore
import NIOPosix
import StalecastHTTP
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
                let (blocked, block) = AsyncStream.makeStream(of: Never.self)
                let bytes = try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask {
                        defer { block.finish() }
                        var isBlocked = false
                        for _ in 1...count {
                            let before = server.store.head()
                            try await outbound.write(Self.put(value))
                            // Alone: only then does the store's thread answer, until an answer waits for the client.
                            let end = ContinuousClock.now + .milliseconds(400)
                            while !isBlocked, server.store.head() == before {
                                isBlocked = ContinuousClock.now > end
                                try await Task.sleep(for: .milliseconds(1))
                            }
                            if isBlocked { block.finish() }
                        }
                        outbound.finish()
                    }
                    // Until the server goes on no more, because nothing is read.
                    for await _ in blocked {}
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

    /// The daemon stops while a request is served. The client must not send another one on the connection.
    @Test(arguments: [false, true]) func anAnswerAfterADrainBeganEndsTheConnection(drains: Bool) async throws {
        let loop = ConnectionLoop(MultiThreadedEventLoopGroup.singleton.next())
        let (served, serve) = AsyncStream.makeStream(of: Served.self)
        let listener = try await HTTPListener.open(
            .address(host: "127.0.0.1", port: 0), group: loop.loop, hasRoom: { true }
        ) { channel in
            channel.eventLoop.makeCompletedFuture {
                try loop.receive(
                    channel, limits: ConnectionLimits(), tls: nil,
                    Reception { LateHandler(connection: $0, serve: serve) })
            }
        }
        try await RawConnection.open(port: listener.port) { inbound, outbound in
            try await outbound.write(Self.get)
            let (connection, prompt) = try #require(await served.first { _ in true })
            if drains { try await loop.loop.submit { _ = loop.drain() }.get() }
            try #require(prompt).write(Answer(["a": 1]), of: connection, on: loop.loop)
            if !drains { outbound.finish() }
            let replies = HTTPReply.all(in: await RawConnection.collect(inbound))
            #expect(replies.map(\.status) == [200])
            #expect(replies.first?.headers["connection"] == (drains ? "close" : nil))
        }
        await listener.close()
        try await loop.loop.flatSubmit { loop.drain() }.get()
    }

    private typealias Served = (connection: HTTPConnection, prompt: PromptAnswer?)

    /// Leaves the answer to another thread.
    private final class LateHandler: RequestHandler {
        private let connection: HTTPConnection
        private let serve: AsyncStream<Served>.Continuation

        init(connection: HTTPConnection, serve: AsyncStream<Served>.Continuation) {
            (self.connection, self.serve) = (connection, serve)
        }

        func admit(_ head: RequestHead) throws(GoogleError) -> Int { 0 }
        func serve(_ request: Request) { serve.yield((connection, connection.promptAnswer())) }
        func faulted(_ fault: ConnectionFault) {}
        func becameWritable() {}
        func drain() {}
        func closed() {}
    }
}
