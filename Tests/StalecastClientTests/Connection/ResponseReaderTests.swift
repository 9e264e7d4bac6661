import Foundation
import StalecastClient
import Testing

/// HTTP/1.1 answers, cut anywhere; redirects; the timer queue.
@Suite struct ResponseReaderTests {
    /// Everything an answer says, with its pieces of body put together.
    private struct Reading: Equatable {
        var status: Int?
        var body = ""
        var hasEnded = false
        var isMalformed = false
    }

    private static func read(_ answer: String, inPieces size: Int, closing: Bool) -> Reading {
        var reader = ResponseReader()
        var reading = Reading()
        let bytes = Array(answer.utf8)
        do {
            for start in stride(from: 0, to: bytes.count, by: size) {
                take(try reader.receive(Array(bytes[start..<min(start + size, bytes.count)])), &reading)
            }
            if closing { take(try reader.closed(), &reading) }
        } catch { reading.isMalformed = true }
        return reading
    }

    private static func take(_ events: [StreamEvent], _ reading: inout Reading) {
        for event in events {
            switch event {
            case .head(let head): reading.status = head.status
            case .bytes(let bytes): reading.body += String(decoding: bytes, as: UTF8.self)
            case .end: reading.hasEnded = true
            case .failed: reading.isMalformed = true
            }
        }
    }

    /// The same however the answer is cut.
    private func expect(_ answer: String, closing: Bool = false, _ expected: Reading) {
        for size in [1, 2, 3, 7, 10_000] {
            #expect(Self.read(answer, inPieces: size, closing: closing) == expected, "in pieces of \(size)")
        }
    }

    @Test func bodiesEndAsTheirHeadSays() {
        let whole = Reading(status: 200, body: "hello", hasEnded: true)
        expect("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", whole)
        expect("HTTP/1.1 200 OK\r\ncontent-length: 5, 5\r\n\r\nhelloxxxxx", whole)
        expect("HTTP/1.0 200\nA: b\n\nhello", closing: true, whole)
        let chunks = "2;name=\"x\"\r\nhe\r\n003\r\nllo\r\n0\r\nTrailer: x\r\n\r\n"
        expect("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\(chunks)", whole)
        expect("HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n", Reading(status: 204, hasEnded: true))
        expect("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Reading(status: 200, hasEnded: true))
        expect("HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", whole)
    }

    @Test func whatIsNotHTTPIsMalformed() {
        let malformed = Reading(isMalformed: true)
        for answer in [
            "SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 101 X\r\n\r\n",
            "\r\n\r\n",
        ] {
            expect(answer, malformed)
        }
        expect("HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n", malformed)
        expect("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", malformed)
        expect("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", malformed)
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        for chunk in ["x\r\n", "\r\n", ";a\r\n", "123456789\r\n", "1\r\nab\r\n"] {
            #expect(Self.read(head + chunk, inPieces: 1, closing: false).isMalformed, "\(chunk)")
        }
        #expect(Self.read(String(repeating: "x", count: 40_000), inPieces: 4096, closing: false).isMalformed)
    }

    @Test func anAnswerThatIsCutOffIsAFailure() {
        for answer in ["", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"] {
            #expect(Self.read(answer, inPieces: 5, closing: true).isMalformed)
        }
        #expect(
            Self.read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", inPieces: 5, closing: true)
                .isMalformed)
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
            let next = try next(status, "//b.example/")
            #expect(next.method == "GET" && next.body == nil && next.headers == ["X": "y"])
            #expect(next.url.absoluteString == "https://b.example/")
        }
        for location in ["", "http://a.example/x", "javascript:1", "https:///x"] {
            #expect(throws: Redirect.Refused.self, "\(location)") { try next(307, location) }
        }
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
}
