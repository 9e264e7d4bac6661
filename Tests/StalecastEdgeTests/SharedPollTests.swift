import StalecastEdge
import StalecastHTTP
import StalecastHub
import StalecastWire
import Testing

@Suite("A poll that a cache answers to many clients")
struct SharedPollTests {
    private func poll(after round: Int64, wait: Int = 20_000, hasCursor: Bool = true, at milliseconds: Int64)
        -> SharedPoll
    {
        SharedPoll(
            after: round, waitMs: wait, hasCursor: hasCursor, at: Timestamp(microseconds: milliseconds * 1000))
    }

    @Test func clientsOfDifferentTimesMeetInTheNextRound() {
        let early = poll(after: 0, at: 1_000_001)
        let late = poll(after: 49, at: 1_019_000)
        #expect(early.round(isSilent: true) == 51)
        #expect(late.round(isSilent: true) == 51)
        #expect((early.holdMs, late.holdMs) == (19_999, 1000))
    }

    @Test(arguments: [0, 1, 49, 50, 51, 52, 1 << 53] as [Int64])
    func silenceLeadsToAnotherRound(asked: Int64) {
        for moment in stride(from: Int64(1_000_000), to: 1_040_000, by: 501) {
            let poll = poll(after: asked, at: moment)
            #expect(poll.round(isSilent: true) != asked)
            #expect((1...40_000).contains(poll.holdMs))
        }
    }

    @Test func aClientThatIsEarlyByAMillisecondWaitsForTheRoundAfter() {
        let poll = poll(after: 51, at: 1_019_999)
        #expect(poll.holdMs == 20_001)
        #expect(poll.round(isSilent: true) == 52)
    }

    @Test func aMessageLeavesTheRoundAsItIs() {
        let told = poll(after: 50, at: 1_010_000).round(isSilent: false)
        #expect(told == 50)
        #expect(poll(after: told, at: 1_010_001).holdMs <= 20_000)
    }

    @Test func onlyAnAnswerThatLeadsOnIsKept() {
        #expect(poll(after: 0, at: 5).caching.contains("s-maxage"))
        #expect(poll(after: 0, wait: 0, at: 5).caching == "no-store")
        let first = poll(after: 0, hasCursor: false, at: 5)
        #expect(first.holdMs == 0)
        #expect(first.caching.contains("s-maxage"))
    }

    private func request(
        _ query: String, _ kind: StreamRequest.Kind = .poll, _ change: (inout StreamHeaders) -> Void = { _ in }
    ) throws(GoogleError) -> StreamRequest {
        var headers = StreamHeaders()
        change(&headers)
        return try StreamRequest(kind: kind, query: Array(query.utf8), headers: headers, maxTopics: 4)
    }

    @Test(arguments: ["client=a", "have=3", "ticket=stt_1", "key=k", "round=-1", "round=9007199254740993", "round=x"])
    func whatTellsOneClientFromAnotherIsRefused(part: String) {
        #expect(throws: GoogleError.self) { try request("topic=PUSH_RC&round=0&\(part)") }
    }

    @Test func headersOfOneClientAreRefused() {
        #expect(throws: GoogleError.self) { try request("topic=PUSH_RC&round=0") { $0.lastEventID = "e.1" } }
        #expect(throws: GoogleError.self) { try request("topic=PUSH_RC&round=0") { $0.client = "a" } }
    }

    @Test func streamsHaveNoRounds() throws {
        #expect(try request("topic=PUSH_RC&round=7&client=a", .events).round == nil)
    }

    @Test func itIsToldWithTheLastStageOfARelease() throws {
        var request = try request("topic=PUSH_RC&round=0")
        request.address = 7
        for splits in [false, true] {
            let cut = ReleaseCut(
                Scope(project: .demo, namespace: .firebase), 2, bounds: [100, 9_999, 10_000], splitsAddresses: splits)
            #expect(cut.stage(of: request.clientKey) == 2)
        }
    }

    @Test func theEngineLeavesItToTheFront() {
        let head = "GET /v1/poll?topic=PUSH_RC&round=0 HTTP/1.1\r\nHost: a\r\n\r\n"
        var bytes = Array(head.utf8)
        bytes.withUnsafeMutableBufferPointer {
            #expect(Recogniser.find(UnsafeBufferPointer($0), maxTopics: 4)?.stream == nil)
        }
    }
}
