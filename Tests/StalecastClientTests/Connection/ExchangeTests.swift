import Foundation
import StalecastClient
import Testing

/// Answers of every shape over a real connection; redirects; the timer queue.
@Suite struct ExchangeTests {
    /// The answer to a request, whose bytes the server sends in pieces and then closes; nil for none.
    private func answer(_ bytes: String, inPieces size: Int) async throws -> TransportResponse? {
        try await StreamServer.serving { peer, _ in
            let bytes = Array(bytes.utf8)
            for start in stride(from: 0, to: bytes.count, by: size) {
                peer.send(bytes[start..<min(start + size, bytes.count)])
            }
            peer.close()
        } _: { server in
            // Why there is none is said elsewhere.
            try? await NetworkTransport.shared.send(TransportRequest(method: "GET", url: server.url, timeout: 30))
        }
    }

    @Test(arguments: [1, 7, 10_000]) func bodiesEndAsTheirHeadSays(size: Int) async throws {
        let chunks = "2;name=\"x\"\r\nhe\r\n003\r\nllo\r\n0\r\nTrailer: x\r\n\r\n"
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.0 200 OK\r\nA: b\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\(chunks)",
            "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        ] {
            let answer = try await answer(text, inPieces: size)
            #expect(answer?.status == 200 && answer?.body == Data("hello".utf8), "\(text)")
            #expect(answer?.headers["trailer"] == nil && answer?.headers["link"] == nil)
        }
        #expect(try await answer("HTTP/1.1 204 No\r\n\r\n", inPieces: size)?.status == 204)
    }

    @Test func whatIsNoWholeAnswerIsAFailure() async throws {
        for text in [
            "", "SSH-2.0-OpenSSH\r\n\r\n", "\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            "HTTP/1.1 200 OK\r\n" + String(repeating: "A: b\r\n", count: 10_000),
        ] {
            #expect(try await answer(text, inPieces: 4096) == nil, "\(text.prefix(80))")
        }
    }

    @Test func aRefusedConnectionsErrorNamesTheAddress() async throws {
        let reason = await #expect(throws: (any Error).self) {
            try await NetworkTransport.shared.send(
                TransportRequest(url: URL(string: "http://127.0.0.1:1/")!, timeout: 5))
        }
        #expect(reason?.localizedDescription.contains("127.0.0.1") == true, "it names the address")
    }

    @Test func retryAfterIsSecondsOrADate() {
        let now = Date(timeIntervalSince1970: 784_111_777)
        func seconds(_ text: String, date: String? = nil) -> Double? {
            var headers = ["retry-after": text]
            headers["date"] = date
            return ResponseHead(status: 503, headers: headers).retryAfter(now: now)
        }
        #expect(seconds("120") == 120)
        #expect(seconds(" 0 ") == 0)
        #expect(seconds("99999999999999999999999") == 3600)
        #expect(seconds("Sun, 06 Nov 1994 08:49:47 GMT") == 10)
        #expect(seconds("Sun, 06 Nov 1994 08:49:00 GMT") == 0)
        #expect(seconds("Sun, 06 Nov 1994 08:49:47 GMT", date: "Sun, 06 Nov 1994 08:49:17 GMT") == 30)
        for text in ["", "soon", "-3", "+3", "１"] { #expect(seconds(text) == nil, "\(text)") }
    }

    @Test func redirectsKeepMethodsAsFetchSays() throws {
        let url = try #require(URL(string: "https://a.example/x/y?q"))
        let post = StreamRequest(method: "POST", url: url, headers: ["content-type": "a/b", "X": "y"], body: [1])
        func next(_ status: Int, _ location: String) throws -> StreamRequest {
            try Redirect.next(post, ResponseHead(status: status, headers: ["location": location]))
        }
        for status in [307, 308] {
            let next = try next(status, "../z")
            #expect(next.method == "POST" && next.body == [1] && next.url.absoluteString == "https://a.example/z")
        }
        for status in [301, 302, 303] {
            let next = try next(status, "/b")
            #expect(next.method == "GET" && next.body == nil && next.headers == ["X": "y"])
            #expect(next.url.absoluteString == "https://a.example/b")
            #expect(
                try self.headers(of: post, to: "//b.example/", status: status) == [:], "an app's own may be a secret")
        }
        for location in ["", "http://a.example/x", "javascript:1", "https:///x"] {
            #expect(throws: Redirect.Refused.self, "\(location)") { try next(307, location) }
        }
    }

    private func headers(of request: StreamRequest, to location: String, status: Int) throws -> [String: String] {
        try Redirect.next(request, ResponseHead(status: status, headers: ["location": location])).headers
    }

    @Test func timersComeInTheOrderOfTheirTimes() {
        var queue = TimerQueue()
        var generator = SystemRandomNumberGenerator()
        let times = (0..<500).map { _ in UInt64.random(in: 0..<1000, using: &generator) }
        let ids = times.map { queue.add(at: $0) {} }
        for (position, id) in ids.enumerated() where position % 3 == 0 { queue.cancel(id) }
        var left = times.enumerated().filter { $0.offset % 3 != 0 }.map(\.element).sorted()[...]
        for now in stride(from: UInt64(0), through: 1000, by: 10) {
            let next = queue.nextDeadline
            #expect(next == left.first)
            while queue.next(at: now) != nil { left = left.dropFirst() }
            #expect(left.allSatisfy { $0 > now })
        }
        let next = queue.nextDeadline
        #expect(left.isEmpty && next == nil)
    }

    /// Each request says `Connection: close`: RFC 9112 section 9.6 forbids another one on its connection.
    @Test func aConnectionServesOneRequestOnly() async throws {
        try await StreamServer.serving { peer, _ in
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        } _: { server in
            for count in 1...3 {
                let request = TransportRequest(method: "GET", url: server.url, timeout: 20)
                let answer = try await NetworkTransport.shared.send(request)
                #expect(answer.status == 200 && server.peers.count == count)
            }
        }
    }
}
