import StalecastEdge
import StalecastHub
import StalecastWire
import Testing

/// What a stream promises, on both halves of Edge.
@Suite(.serialized, .timeLimit(.minutes(3))) struct StreamTests {
    @Test(arguments: [true, false])
    func aStreamBeginsInTheOrderOfTheDesign(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            for _ in 0..<3 { live.publish() }
            let client = try live.stream(headers: ["Last-Event-ID: \(live.cursor(1))"])
            let transcript = try client.transcript()
            #expect(transcript.head.hasPrefix("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"))
            #expect(transcript.head.contains("Cache-Control: no-store, no-transform\r\nX-Accel-Buffering: no\r\n"))
            guard case .retry(let delay) = transcript.outputs.first else { return #expect(Bool(false), "no retry") }
            #expect((3000...6000).contains(delay))
            #expect(transcript.outputs[1] == .comment(" stalecast"))
            #expect(transcript.events.map(\.type) == ["message", "synced"])
            #expect(transcript.versions == [3])
            #expect(transcript.events.last?.lastEventID == live.cursor(3))
        }
    }

    @Test(arguments: [true, false])
    func aCursorOfAnotherEpochResetsFirst(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            live.publish()
            let client = try live.stream("topic=PUSH_RC&cursor=\(Epoch.random()).9")
            #expect(try client.transcript().events.map(\.type) == ["reset", "message", "synced"])
        }
    }

    @Test(arguments: [true, false])
    func messagesComeInOrderWithTheirCursors(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            let client = try live.stream()
            for _ in 0..<50 { live.publish() }
            try client.read(untilVersion: 50)
            let transcript = try client.transcript()
            #expect(transcript.versions == transcript.versions.sorted())
            #expect(Set(transcript.versions).count == transcript.versions.count)
            #expect(transcript.events.last?.lastEventID == live.cursor(50))
        }
    }

    @Test(arguments: [true, false])
    func ofTwoMessagesWithOneCursorOnlyTheLastCarriesTheID(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            let client = try live.stream("topic=PUSH_RC&topic=pay")
            live.publish(["pay_x"])
            try client.read { $0.text.components(of: "CONFIG_STATE") == 2 && $0.text.hasSuffix("\n\n\r\n") }
            let messages = try client.transcript().events.filter { $0.type == "message" }
            #expect(messages.map(\.lastEventID) == [live.cursor(0), live.cursor(1)])
            live.publish(in: LiveEdge.other)
            live.publish(["welcome"])
            try client.read(untilVersion: 2)
            #expect(try client.transcript().versions == [1, 1, 2])
        }
    }

    @Test(arguments: [true, false])
    func anHTTP10StreamIsPlainAndEndsWithTheConnection(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            let client = try live.stream(version: "1.0")
            live.publish()
            try client.read(untilVersion: 1)
            #expect(try client.transcript().head.contains("Connection: close"))
            #expect(try !client.transcript().head.contains("chunked"))
            #expect(try client.transcript().versions == [1])
        }
    }

    @Test(arguments: [true, false])
    func silentStreamsGetComments(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine, { $0.heartbeat = .milliseconds(300) }) { live in
            let client = try live.stream()
            try client.read { $0.text.components(of: ": hb\n\n") >= 3 }
            live.publish()
            try client.read(untilVersion: 1)
        }
    }

    @Test(arguments: [true, false])
    func aStreamOfItsAgeEndsWithADelayAndAWholeBody(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine, { $0.streamLifetime = .milliseconds(500) }) { live in
            let client = try live.stream()
            _ = try client.readToEnd()
            let transcript = try client.transcript()
            #expect(transcript.isEnded)
            guard case .retry = transcript.outputs.last else { return #expect(Bool(false), "no retry at the end") }
            try await live.wait { $0.drops[.lifetime] == 1 && $0.streams == 0 }
        }
    }

    @Test(arguments: [true, false])
    func sentDataArrivesAsItIs(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            let client = try live.stream()
            let poll = RawClient(port: live.port)
            poll.get("/v1/poll?topic=PUSH_RC&wait=20s")
            try await live.wait { $0.polls == 1 }
            live.hub.send(DataMessage(target: .topic(.pushRC), data: ["CONFIG_STATE": "STALE", "x": "\r\n\u{2028}"]))
            try client.read(untilText: #"{"CONFIG_STATE":"STALE","x":"\r\n\u2028"}"#)
            try poll.read(untilText: #""messages":[{"CONFIG_STATE":"STALE","x":"\r\n\u2028"}]"#)
        }
    }

    @Test(arguments: [true, false])
    func aDrainEndsStreamsCleanlyAndAnswersPolls(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            let client = try live.stream()
            let poll = RawClient(port: live.port)
            poll.get("/v1/poll?topic=PUSH_RC&wait=60s")
            try await live.wait { $0.polls == 1 && $0.streams == 1 }
            await live.edge.drain(over: .milliseconds(300))
            _ = try client.readToEnd()
            #expect(try client.transcript().isEnded)
            #expect(try poll.readToEnd().contains("\"messages\":[]"))
            #expect(live.edge.connections == 0)
        }
    }
}

extension String {
    /// How often `part` occurs.
    func components(of part: String) -> Int { ranges(of: part).count }
}
