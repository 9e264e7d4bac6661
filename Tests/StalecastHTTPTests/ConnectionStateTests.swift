import NIOHTTP1
import StalecastHTTP
import Testing

/// A connection whose clock the test moves; the parser's part is played by hand.
private struct Script {
    var state: ConnectionState
    var now: UInt64 = 1_000_000_000
    static let limits: ConnectionLimits = {
        var limits = ConnectionLimits()
        limits.maxHeadBytes = 1000
        return limits
    }()

    init(_ limits: ConnectionLimits = Script.limits) { state = ConnectionState(limits: limits, at: now) }

    mutating func pass(seconds: Double) { now += UInt64(seconds * 1e9) }

    mutating func take(_ text: String) -> ConnectionState.Take {
        Array(text.utf8).withUnsafeBytes { state.take($0, at: now) }
    }

    mutating func tick(unwritten: Int = 0) -> ConnectionState.End { state.tick(at: now, unwritten: unwritten) }

    /// A head arrives and is parsed.
    mutating func receive(
        _ framing: String = "", method: HTTPMethod = .GET, limit: Int = 100
    ) throws -> GoogleError? {
        let text = "\(method) / HTTP/1.1\r\nHost: a\r\n\(framing)\r\n"
        #expect(take(text) == .pass(text.utf8.count))
        var head = HTTPRequestHead(version: .http1_1, method: method, uri: "/")
        for line in ("Host: a\r\n" + framing).split(separator: "\r\n") {
            let parts = line.split(separator: ":", maxSplits: 1)
            head.headers.add(name: String(parts[0]), value: String(parts[1].dropFirst()))
        }
        return state.received(try RequestHead(head), bodyLimit: limit, at: now)
    }

    /// A whole request without a body is being served.
    mutating func serve(_ framing: String = "") throws {
        #expect(try receive(framing) == nil)
        #expect(state.receivedEnd() == nil)
    }

    mutating func answered(isLast: Bool = false, unwritten: Int = 0) -> ConnectionState.Next {
        state.answered(isLast: isLast, unwritten: unwritten, at: now)
    }
}

@Suite struct ConnectionStateTests {
    // MARK: One request at a time

    @Test func whatIsPipelinedWaitsForTheAnswer() throws {
        var script = Script()
        let one = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        #expect(script.take(one + one) == .pass(one.utf8.count))
        script = Script()
        try script.serve()
        #expect(script.take(one) == .wait)
        #expect(script.answered() == .proceed)
        #expect(script.take(one) == .pass(one.utf8.count))
    }

    @Test func nothingBehindTheLastRequestIsAnswered() throws {
        var script = Script()
        try script.serve("Connection: close\r\n")
        #expect(script.take("GET / HTTP/1.1\r\nHost: a\r\n\r\n") == .drop)
        #expect(script.state.endsWithAnswer)
        #expect(script.answered() == .finish)
        #expect(script.take("GET") == .drop)
    }

    @Test func theOutputIsClosedBeforeTheConnection() throws {
        var script = Script()
        try script.serve()
        #expect(script.answered(isLast: true) == .finish)
        #expect(script.state.flushed(at: script.now) == .finish)
        #expect(script.take("more") == .drop)
        #expect(script.tick() == .nothing)
        #expect(script.state.inputClosed() == .close(nil))
        script.pass(seconds: 1)
        #expect(script.tick() == .close(nil))
    }

    @Test func aBodyEndsWhereItsLengthSays() throws {
        var script = Script()
        #expect(try script.receive("Content-Length: 5\r\n", method: .POST) == nil)
        #expect(script.take("helloGET / HTTP/1.1\r\n") == .pass(5))
        #expect(script.state.receivedBody(5) == nil)
        #expect(script.state.receivedEnd() == nil)
        #expect(script.take("GET / HTTP/1.1\r\n") == .wait)
    }

    @Test(arguments: ["5\r\nhello\r\n0\r\n\r\n", "5;a=b\r\nhello\r\n0\r\nA: b\r\n\r\n", "05 \r\nhello\r\n000\r\n\r\n"])
    func aChunkedBodyEndsWithItsTrailers(body: String) throws {
        var script = Script()
        #expect(try script.receive("Transfer-Encoding: chunked\r\n", method: .POST) == nil)
        #expect(script.take(body + "GET /") == .pass(body.utf8.count))
        #expect(script.state.receivedBody(5) == nil)
        #expect(script.state.receivedEnd() == nil)
    }

    @Test func anEndIsFoundHoweverTheBytesAreCut() throws {
        let head = "\r\nGET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n"
        for cut in 1..<head.utf8.count {
            var script = Script()
            let first = String(head.prefix(cut))
            let rest = String(head.dropFirst(cut)) + "GET /"
            #expect(script.take(first) == .pass(first.utf8.count))
            #expect(script.state.parsed() == nil || rest == "GET /")
            if rest != "GET /" { #expect(script.take(rest) == .pass(rest.utf8.count - 5), "\(cut)") }
            #expect(script.state.parsed() == .notHTTP, "the parser found no head where one ended")
        }
    }

    // MARK: Limits

    @Test(arguments: [
        "GET /" + String(repeating: "a", count: 2000), "GET / HTTP/1.1\r\nX: " + String(repeating: "a", count: 2000),
        "GET / HTTP/1.1\r\n" + String(repeating: "a: b\r\n", count: 200) + "\r\n",
    ])
    func aHeadBeyondTheLimitIsRefusedWhateverItsShape(head: String) {
        var script = Script()
        #expect(script.take(head) == .refuse(.headTooLarge))
        var slow = Script()
        var taken = ConnectionState.Take.wait
        for byte in head.unicodeScalars {
            taken = slow.take(String(byte))
            if taken != .pass(1) { break }
        }
        #expect(taken == .refuse(.headTooLarge))
    }

    @Test func aHeadMayHaveExactlyTheLimit() {
        let rest = "GET / HTTP/1.1\r\nX: \r\n\r\n"
        let head = rest.replacing("X: ", with: "X: " + String(repeating: "a", count: 1000 - rest.utf8.count))
        var script = Script()
        #expect(script.take(head) == .pass(1000))
    }

    @Test func anAnnouncedLengthBeyondTheLimitIsRefusedAtOnce() throws {
        var script = Script()
        #expect(try script.receive("Content-Length: 1000000000000\r\n", method: .PUT) == .bodyTooLarge(limit: 100))
        script = Script()
        #expect(try script.receive("Content-Length: 100\r\n", method: .PUT) == nil)
    }

    @Test func chunkExtensionsAndTrailersHaveABudget() throws {
        var script = Script()
        #expect(try script.receive("Transfer-Encoding: chunked\r\n", method: .PUT) == nil)
        #expect(script.take("1;" + String(repeating: "a", count: 3000)) == .refuse(.framingTooLarge))
        script = Script()
        #expect(try script.receive("Transfer-Encoding: chunked\r\n", method: .PUT) == nil)
        var taken = ConnectionState.Take.wait
        for _ in 0..<1000 {
            taken = script.take("1\r\nx\r\n")
            guard taken == .pass(6), script.state.receivedBody(1) == nil else { break }
        }
        #expect(taken == .pass(6), "a chunk of one byte is allowed its line")
        script = Script()
        #expect(try script.receive("Transfer-Encoding: chunked\r\n", method: .PUT) == nil)
        #expect(script.take("0\r\n" + String(repeating: "a: b\r\n", count: 1000)) == .refuse(.framingTooLarge))
    }

    @Test func aChunkedBodyBeyondTheLimitIsRefused() throws {
        var script = Script()
        #expect(try script.receive("Transfer-Encoding: chunked\r\n", method: .PUT) == nil)
        #expect(script.state.receivedBody(100) == nil)
        #expect(script.state.receivedBody(1) == .bodyTooLarge(limit: 100))
    }

    @Test(arguments: ["DESCRIBE / RTSP/1.0\r\n", "GET / RTSP/1.1\r\n", "SOURCE / ICE/1.0\r\n"])
    func otherProtocolsAreNotHTTP(line: String) {
        var script = Script()
        #expect(script.take(line) == .refuse(.malformed("This server speaks HTTP/1.1.")))
    }

    // MARK: Time

    @Test func aHeadMustArriveInTimeCountedFromItsFirstByte() throws {
        var script = Script()
        for byte in "GET / HTT".unicodeScalars {
            #expect(script.take(String(byte)) == .pass(1))
            script.pass(seconds: 1.05)
        }
        script.pass(seconds: 1)
        #expect(script.tick() == .refuse(.headTimeout, .headTimeout))
        var silent = Script()
        silent.pass(seconds: 10)
        #expect(silent.tick() == .close(.headTimeout))
    }

    @Test func anIdleConnectionIsClosedAndANewHeadHasItsOwnTime() throws {
        var script = Script()
        try script.serve()
        #expect(script.answered() == .proceed)
        script.pass(seconds: 59)
        #expect(script.tick() == .nothing)
        #expect(script.take("GET") == .pass(3))
        script.pass(seconds: 9)
        #expect(script.tick() == .nothing)
        script.pass(seconds: 1)
        #expect(script.tick() == .refuse(.headTimeout, .headTimeout))
        var idle = Script()
        try idle.serve()
        _ = idle.answered()
        idle.pass(seconds: 60)
        #expect(idle.tick() == .close(.idle))
    }

    @Test func aBodyThatDripsIsCut() throws {
        var script = Script()
        #expect(try script.receive("Content-Length: 90\r\n", method: .PUT) == nil)
        var end = ConnectionState.End.nothing
        for _ in 0..<70 {
            #expect(script.state.receivedBody(1) == nil)
            script.pass(seconds: 1)
            end = script.tick()
            if end != .nothing { break }
        }
        #expect(end == .refuse(.bodyTimeout, .bodyTimeout))
        var quick = Script()
        #expect(try quick.receive("Content-Length: 1000000\r\n", method: .PUT, limit: 1_000_000) == nil)
        for _ in 0..<100 {
            #expect(quick.state.receivedBody(5000) == nil)
            quick.pass(seconds: 4)
            #expect(quick.tick() == .nothing)
        }
    }

    @Test func nothingIsAskedOfAClientWhileItsStreamIsHeld() throws {
        var script = Script()
        try script.serve()
        script.state.hold()
        #expect(script.take("x") == .wait)
        script.pass(seconds: 100_000)
        #expect(script.tick() == .nothing)
        #expect(script.state.inputClosed() == .close(nil))
    }

    @Test func aClientThatReadsNothingIsClosedAndOneThatReadsSlowlyIsNot() throws {
        var script = Script()
        try script.serve()
        #expect(script.answered(unwritten: 1000) == .block)
        #expect(script.take("GET") == .wait)
        script.pass(seconds: 30)
        #expect(script.tick(unwritten: 900) == .nothing)
        script.pass(seconds: 30)
        #expect(script.tick(unwritten: 900) == .close(.writeStall))
        var reader = Script()
        try reader.serve()
        #expect(reader.answered(unwritten: 1000) == .block)
        #expect(reader.state.flushed(at: reader.now) == .proceed)
        #expect(reader.take("GET") == .pass(3))
    }

    // MARK: Ends

    @Test func aClientThatEndsItsSideIsAnsweredWhatItAskedFor() throws {
        var script = Script()
        try script.serve()
        #expect(script.state.inputClosed() == .nothing)
        #expect(script.answered() == .finish)
        var partial = Script()
        #expect(partial.take("GET /") == .pass(5))
        guard case .refuse = partial.state.inputClosed() else { Issue.record("a cut request is refused"); return }
        var idle = Script()
        #expect(idle.state.inputClosed() == .close(nil))
    }

    @Test func aConnectionThatEndsAfterItsAnswerIsIdleAndARefusedOneIsNot() throws {
        var script = Script()
        try script.serve()
        #expect(script.state.idleSince == nil)
        #expect(script.answered(isLast: true) == .finish)
        #expect(script.state.flushed(at: script.now) == .finish && script.state.isLingering)
        #expect(script.state.idleSince == script.now)
        var refused = Script()
        #expect(refused.state.finish(0, refused.now) == .finish)
        #expect(refused.state.flushed(at: refused.now) == .finish && refused.state.isLingering)
        #expect(refused.state.idleSince == nil && refused.state.headBegan == nil)
    }

    @Test func aStopLetsRequestsFinishAndRefusesBodiesThatDoNotCome() throws {
        var idle = Script()
        #expect(idle.state.drain(at: idle.now) == .close(nil))
        var serving = Script()
        try serving.serve()
        #expect(serving.state.drain(at: serving.now) == .nothing)
        #expect(serving.state.endsWithAnswer)
        var receiving = Script()
        #expect(try receiving.receive("Content-Length: 5\r\n", method: .PUT) == nil)
        #expect(receiving.state.drain(at: receiving.now) == .nothing)
        receiving.pass(seconds: 5)
        #expect(receiving.tick() == .refuse(.shuttingDown, nil))
    }

    @Test func aStopLetsAClientReadTheAnswerItIsReading() throws {
        var script = Script()
        try script.serve()
        #expect(script.answered(unwritten: 1000) == .block)
        #expect(script.state.drain(at: script.now) == .nothing)
        #expect(script.take("GET") == .drop, "nothing follows it")
        script.pass(seconds: 30)
        #expect(script.tick(unwritten: 900) == .nothing)
        #expect(script.state.flushed(at: script.now) == .finish)
        var stalled = Script()
        try stalled.serve()
        #expect(stalled.answered(unwritten: 1000) == .block)
        #expect(stalled.state.drain(at: stalled.now) == .nothing)
        stalled.pass(seconds: 30)
        #expect(stalled.tick(unwritten: 1000) == .close(.writeStall))
    }
}
