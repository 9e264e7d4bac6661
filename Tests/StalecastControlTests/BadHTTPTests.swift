import NIOCore
import StalecastControl
import StalecastHTTP
import StalecastStore
import StalecastTestSupport
import StalecastWire
import Synchronization
import Testing

@Suite("Bad HTTP", .timeLimit(.minutes(5)))
struct BadHTTPTests {
    private static let authorization = "Authorization: Bearer \(ControlFixture.secret)\r\n"
    private static let put = "PUT \(ControlFixture.prefix) HTTP/1.1\r\nHost: t\r\nIf-Match: *\r\n" + authorization

    static let malformed: [(String, String)] = [
        ("lengthAndEncoding", put + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}"),
        ("twoLengths", put + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x"),
        ("twoEqualLengths", put + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}"),
        ("negativeLength", put + "Content-Length: -2\r\n\r\n{}"),
        ("hugeLength", put + "Content-Length: 99999999999999999999999\r\n\r\n{}"),
        ("strangeEncoding", put + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        ("nulInHeader", put + "X: a\0b\r\n\r\n"),
        ("noHost", "GET /healthz HTTP/1.1\r\n\r\n"),
        ("twoHosts", "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        ("longURL", "GET /" + String(repeating: "a", count: 100_000) + " HTTP/1.1\r\nHost: t\r\n\r\n"),
        ("longHeader", "GET /healthz HTTP/1.1\r\nHost: t\r\nX: " + String(repeating: "a", count: 20_000) + "\r\n\r\n"),
        ("headerFlood", "GET /healthz HTTP/1.1\r\nHost: t\r\n" + String(repeating: "a:b\r\n", count: 50_000) + "\r\n"),
        ("absurdChunk", put + "Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n{}\r\n0\r\n\r\n"),
        ("notAChunk", put + "Transfer-Encoding: chunked\r\n\r\nhello\r\n\r\n"),
        ("notHTTP", "hello\r\n\r\n"), ("tls", "\u{16}\u{03}\u{01}\u{02}\0\u{01}\0"),
        ("http2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), ("connect", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"),
        ("noSlash", "GET healthz HTTP/1.1\r\nHost: t\r\n\r\n"),
        ("bareLF", "GET /healthz HTTP/1.1\nHost: t\n\n"),
        ("oneBareLF", "GET /healthz HTTP/1.1\r\nHost: t\nX: y\r\n\r\n"),
        ("bareCR", "GET /healthz HTTP/1.1\r\nHost: t\rX: y\r\n\r\n"),
        ("foldedHeader", "GET /healthz HTTP/1.1\r\nHost: t\r\nX: y\r\n z\r\n\r\n"),
        ("spaceBeforeColon", put + "Content-Length : 2\r\n\r\n{}"),
        ("spaceInName", "GET /healthz HTTP/1.1\r\nHost: t\r\nX y: z\r\n\r\n"),
    ]

    @Test(arguments: malformed)
    func isRefusedWithAnEnvelopeAndAClose(name: String, request: String) async throws {
        try await ControlFixture.serving { server async throws in
            let bytes = try await server.raw(Array(request.utf8))
            let replies = HTTPReply.all(in: bytes)
            #expect(replies.count == 1, "\(name): \(String(decoding: bytes.prefix(300), as: UTF8.self))")
            let reply = try #require(replies.first)
            #expect((400..<500).contains(reply.status) || reply.status == 505, "\(name): \(reply.status)")
            #expect(try reply.json["error"]?["code"]?.int64 == Int64(reply.status))
            #expect(reply.headers["connection"] == "close")
            #expect(server.store.head() == 0)
            #expect(try await server.send("GET", "/healthz").status == 200)
        }
    }

    @Test func aLongHeadIs431() async throws {
        try await ControlFixture.serving { server async throws in
            for name in ["longURL", "longHeader", "headerFlood"] {
                let request = try #require(Self.malformed.first { $0.0 == name }).1
                let reply = try #require(try await server.replies(request).first)
                #expect(reply.status == 431, "\(name)")
            }
        }
    }

    @Test func goodRequestsBeforeABadOneAreAnswered() async throws {
        try await ControlFixture.serving { server async throws in
            let good = "GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n"
            let replies = try await server.replies(good + good + "GARBAGE\r\n\r\n" + good)
            #expect(replies.map(\.status) == [200, 200, 400])
        }
    }

    @Test func aRequestPipelinedBehindABadOneIsNotServed() async throws {
        try await ControlFixture.serving { server async throws in
            let bad = try #require(Self.malformed.first { $0.0 == "lengthAndEncoding" }).1
            let smuggled = Self.put + "Content-Length: 2\r\nConnection: close\r\n\r\n{}"
            let replies = try await server.replies(bad + smuggled)
            #expect(replies.map(\.status) == [400])
            #expect(server.store.head() == 0)
        }
    }

    @Test(arguments: ["Content-Length: 100\r\n\r\n{}", "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"])
    func aBodyThatIsCutOffIsNotPublished(rest: String) async throws {
        try await ControlFixture.serving { server async throws in
            try await RawConnection.open(port: server.port) { inbound, outbound in
                try await outbound.write(ByteBuffer(string: Self.put + rest))
                outbound.finish()
                let reply = HTTPReply.all(in: await RawConnection.collect(inbound)).first
                #expect(reply?.status == 400)
            }
            #expect(try await server.publish("after").headers["etag"] == "etag-123456789012-1")
        }
    }

    @Test func aDeclaredBodyBeyondTheCapIsRefusedUnread() async throws {
        try await ControlFixture.serving { server async throws in
            let replies = try await server.replies(Self.put + "Content-Length: 8388609\r\n\r\n")
            #expect(replies.map(\.status) == [413])
        }
    }

    @Test func anEndlessChunkedBodyIsRefused() async throws {
        try await ControlFixture.serving({ $0.settings.maxTemplateBytes = 100_000 }) { server async throws in
            let chunk = "2710\r\n" + String(repeating: " ", count: 10_000) + "\r\n"
            let request = Self.put + "Transfer-Encoding: chunked\r\n\r\n" + String(repeating: chunk, count: 100)
            let replies = try await server.replies(request)
            #expect(replies.map(\.status) == [413])
        }
    }

    @Test func expectContinueIsAnsweredBeforeTheBodyIsSent() async throws {
        try await ControlFixture.serving { server async throws in
            try await RawConnection.open(port: server.port) { inbound, outbound in
                let head = Self.put + "Expect: 100-continue\r\nConnection: close\r\nContent-Length: 2\r\n\r\n"
                try await outbound.write(ByteBuffer(string: head))
                var pieces = inbound.makeAsyncIterator()
                let first = try #require(try await pieces.next())
                #expect(String(buffer: first).hasPrefix("HTTP/1.1 100"))
                try await outbound.write(ByteBuffer(string: "{}"))
                var rest: [UInt8] = []
                while let piece = try await pieces.next() { rest += piece.readableBytesView }
                #expect(HTTPReply.all(in: rest).map(\.status) == [200])
            }
        }
    }

    @Test func keepAliveServesManyRequestsAndHTTP10Closes() async throws {
        try await ControlFixture.serving { server async throws in
            let one = "GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n"
            let last = "GET /healthz HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n"
            let replies = try await server.replies(one + one + last)
            #expect(replies.map(\.status) == [200, 200, 200])
            #expect(replies.map { $0.headers["connection"] } == [nil, nil, "close"])
            let old = try await server.replies("GET /healthz HTTP/1.0\r\n\r\n")
            #expect(old.map(\.status) == [200])
        }
    }

    @Test func aHeadThatDoesNotComeInTimeIsRefused() async throws {
        try await ControlFixture.serving({ $0.connections.headTimeout = .seconds(1) }) { server async throws in
            #expect(try await server.replies("GET /hea").map(\.status) == [408])
            #expect(try await server.raw([UInt8]()) == [])
        }
    }

    @Test func anIdleConnectionIsClosed() async throws {
        try await ControlFixture.serving({ $0.connections.idleTimeout = .seconds(1) }) { server async throws in
            let replies = try await server.replies("GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n")
            #expect(replies.map(\.status) == [200])
        }
    }

    @Test func connectionsBeyondTheCapAreTold503() async throws {
        try await ControlFixture.serving({ $0.capacity = ControlCapacity(1) }) { server async throws in
            try await RawConnection.open(port: server.port) { inbound, outbound in
                try await outbound.write(
                    ByteBuffer(string: Self.put + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"))
                var pieces = inbound.makeAsyncIterator()
                #expect(try await pieces.next() != nil)
                // The first is new and being served, in this loop or in another.
                for _ in 0..<4 {
                    let refused = try await server.replies("")
                    #expect(refused.map(\.status) == [503])
                    #expect(refused.first?.headers["retry-after"] == "1")
                }
            }
        }
    }

    /// Two connections in a row belong to two event loops, where there are two.
    @Test(arguments: ["", "GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n"])
    func aConnectionThatAsksNothingMakesRoomAlsoInAnotherLoop(sent: String) async throws {
        try await ControlFixture.serving({ $0.capacity = ControlCapacity(1) }) { server async throws in
            try await RawConnection.open(port: server.port) { inbound, outbound in
                var pieces = inbound.makeAsyncIterator()
                if !sent.isEmpty {
                    try await outbound.write(ByteBuffer(string: sent))
                    #expect(try await pieces.next() != nil)
                }
                for _ in 0..<4 {
                    #expect(try await server.send("GET", "/healthz", token: nil).status == 200)
                }
                #expect(try await pieces.next() == nil, "it is the one that was closed")
            }
        }
    }

    @Test func aLowerCapClosesConnectionsThatAskNothing() async throws {
        let capacity = ControlCapacity(8)
        try await ControlFixture.serving({ $0.capacity = capacity }) { server async throws in
            let open = OpenConnections()
            try await withThrowingTaskGroup { group in
                for _ in 0..<6 {
                    group.addTask {
                        try await RawConnection.open(port: server.port) { inbound, outbound in
                            try await outbound.write(ByteBuffer(string: "GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n"))
                            var pieces = inbound.makeAsyncIterator()
                            #expect(try await pieces.next() != nil)
                            if open.count.add(1, ordering: .relaxed).newValue == 6 {
                                capacity.limit(to: 2)
                                open.lowered.store(1, ordering: .relaxed)
                            }
                            #expect(try await pieces.next() == nil, "the new cap, or the end of the server")
                            open.count.subtract(1, ordering: .relaxed)
                        }
                    }
                }
                // The last answer may still be on its way at the first call: the daemon repeats it each second.
                try await eventually {
                    capacity.closeExcess()
                    return open.lowered.load(ordering: .relaxed) == 1 && open.count.load(ordering: .relaxed) <= 2
                }
                for _ in 0..<4 { try await group.next() }
                #expect(open.count.load(ordering: .relaxed) == 2)
                #expect(try await server.send("GET", "/healthz", token: nil).status == 200)
                await server.stop()
            }
        }
    }

    @Test func aStopRefusesABodyThatDoesNotCome() async throws {
        try await ControlFixture.serving({ $0.connections.drainTimeout = .milliseconds(50) }) { server async throws in
            try await RawConnection.open(port: server.port) { inbound, outbound in
                try await outbound.write(
                    ByteBuffer(string: Self.put + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"))
                var pieces = inbound.makeAsyncIterator()
                _ = try await pieces.next()
                await server.stop()
                var rest: [UInt8] = []
                while let piece = try await pieces.next() { rest += piece.readableBytesView }
                #expect(HTTPReply.all(in: rest).map(\.status) == [503])
            }
            #expect(server.store.head() == 0)
        }
    }

    @Test func aStopLetsARunningPublishFinish() async throws {
        try await ControlFixture.serving { server async throws in
            try await RawConnection.open(port: server.port) { inbound, outbound in
                try await outbound.write(
                    ByteBuffer(string: Self.put + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"))
                var pieces = inbound.makeAsyncIterator()
                _ = try await pieces.next()
                await server.stop()
                try await outbound.write(ByteBuffer(string: "{}"))
                var rest: [UInt8] = []
                while let piece = try await pieces.next() { rest += piece.readableBytesView }
                #expect(HTTPReply.all(in: rest).map(\.status) == [200])
            }
        }
    }
}

/// Connections that a test holds open.
private final class OpenConnections: Sendable {
    let count = Atomic(0)
    let lowered = Atomic(0)
}
