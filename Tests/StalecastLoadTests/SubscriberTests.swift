import Testing

import StalecastLoad

struct SubscriberTests {
    private let payload = Transcript.beginning + Transcript.synced + Transcript.stale(17)

    /// A subscriber whose request was sent, after `parts`, and what the last of them led to.
    private func subscriber(
        _ parts: [[UInt8]], _ transport: LoadTransport
    ) -> (subscriber: Subscriber, progress: Subscriber.Progress) {
        var subscriber = Subscriber(descriptor: -1)
        subscriber.phase = .awaitingHead
        var progress = Subscriber.Progress.nothing
        for part in parts where !part.isEmpty && progress != .end(.broken) {
            progress = part.withUnsafeBytes { subscriber.receive($0, transport) }
        }
        return (subscriber, progress)
    }

    @Test func aStreamIsUnderstoodWhereverItIsCut() {
        (Transcript.head + Transcript.chunk(payload)).cutEverywhere { parts in
            let (subscriber, progress) = subscriber(parts, .sse)
            #expect(subscriber.isReady && subscriber.newestVersion == 17 && progress == .nothing)
        }
    }

    @Test(arguments: [1, 2, 7, 64])
    func aProxyMayCutChunksAnywhere(_ size: Int) {
        let text = Transcript.head + Transcript.rechunked(payload, size: size)
        #expect(subscriber(text.singleBytes, .sse).subscriber.newestVersion == 17)
        #expect(subscriber([Array(text.utf8)], .sse).subscriber.newestVersion == 17)
    }

    @Test func aStreamWithoutChunksIsReadToItsEnd() {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream;charset=utf-8\r\n\r\n"
        #expect(subscriber([Array((head + payload).utf8)], .sse).subscriber.newestVersion == 17)
    }

    @Test func anEndedStreamSaysSo() {
        let text = Transcript.head + Transcript.chunk("retry: 5000\n\n") + "0\r\n\r\n"
        let (subscriber, progress) = subscriber([Array(text.utf8)], .sse)
        #expect(!subscriber.isReady && progress == .end(.ended))
    }

    @Test func refusalsKeepTheirStatus() {
        let text = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
        #expect(subscriber([Array(text.utf8)], .sse).progress == .end(.status(503)))
        #expect(subscriber(text.singleBytes, .poll).progress == .end(.status(503)))
    }

    @Test(arguments: ["SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"])
    func whatIsNoStreamIsRefused(_ text: String) {
        #expect(subscriber([Array(text.utf8)], .sse).progress == .end(.broken))
    }

    @Test func aPollsAnswerIsUnderstoodWhereverItIsCut() {
        let message = "{\"latestTemplateVersionNumber\":\"17\",\"sinceTemplateVersionNumber\":\"916\"}"
        let body = "{\"cursor\":\"7c1k.42\",\"messages\":[\(message)]}\n"
        let heads = ["Content-Length: \(body.utf8.count)", "Transfer-Encoding: chunked"]
        for (head, framed) in zip(heads, [body, Transcript.chunk(body) + "0\r\n\r\n"]) {
            "HTTP/1.1 200 OK\r\n\(head)\r\n\r\n\(framed)".cutEverywhere { parts in
                let (subscriber, progress) = subscriber(parts, .poll)
                #expect(progress == .answered && subscriber.isReady && subscriber.phase == .awaitingHead)
                #expect(subscriber.cursor == "7c1k.42" && subscriber.newestVersion == 17)
            }
        }
    }

    @Test func aPollsEmptyAnswerIsAHeartbeatOnceItStands() {
        let body = "{\"cursor\":\"7c1k.42\",\"messages\":[]}\n"
        let answer = Array("HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)".utf8)
        #expect(subscriber([answer], .poll).subscriber.heartbeats == 0)
        #expect(subscriber([answer, answer, answer], .poll).subscriber.heartbeats == 2)
    }
}
