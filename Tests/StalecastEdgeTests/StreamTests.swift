import Foundation
import StalecastEdge
import StalecastHub
import StalecastTestServers
import StalecastTestSupport
import StalecastWire
import Testing

/// Tests the promises of a stream, on both halves of Edge.
@Suite(.serialized, .timeLimit(.minutes(5))) struct StreamTests {
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

    /// A loop without subscribers is not woken by a publish; when asked, it must not answer for the version before.
    @Test(arguments: [true, false])
    func aVersionWithoutListenersIsCountedWithoutTheStreamsOfTheOneBefore(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            let client = try live.stream()
            live.publish()
            try client.read(untilVersion: 1)
            #expect(await live.edge.streamCounts(of: LiveEdge.scope).streams == 1)
            client.close()
            try await live.wait { $0.streams == 0 }
            live.publish()
            #expect(await live.edge.streamCounts(of: LiveEdge.scope).streams == 0)
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
        try await LiveEdge.with(engine: engine, { $0.times.heartbeat = .milliseconds(300) }) { live in
            let client = try live.stream()
            try client.read { $0.text.components(of: ": hb\n") >= 3 }
            live.publish()
            try client.read(untilVersion: 1)
        }
    }

    @Test(arguments: [true, false])
    func aStreamOfItsAgeEndsWithADelayAndAWholeBody(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine, { $0.times.streamLifetime = .milliseconds(500) }) { live in
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
            live.hub.send(
                DataMessage(target: .topic(.pushRC), in: .demo, data: ["CONFIG_STATE": "STALE", "x": "\r\n\u{2028}"]))
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
            let answer = try poll.readToEnd()
            #expect(answer.contains("\"messages\":[]") && answer.contains("Retry-After: "))
            // The client sees the end before the server counts it.
            try await eventually { live.edge.connections == 0 }
        }
    }

    @Test(arguments: [true, false])
    func aDrainAnswersPollsOneAfterTheOther(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            let polls = (0..<100).map { _ in RawClient(port: live.port) }
            for poll in polls { poll.get("/v1/poll?topic=PUSH_RC&wait=60s") }
            try await live.wait { $0.polls == 100 }
            // Far longer than this test is ever kept waiting: with the first answer the others are still to come.
            async let drained: Void = live.edge.drain(over: .seconds(60), each: .seconds(1))
            var left = 100
            try await live.wait {
                left = $0.polls
                return left < 100
            }
            #expect(left > 0, "all were answered at once")
            for poll in polls { poll.close() }
            await drained
        }
    }
}

/// Tests which messages a subscription gets, on both halves of Edge.
@Suite(.serialized, .timeLimit(.minutes(5))) struct SubscriptionTests {
    @Test(arguments: [true, false])
    func aTopicIsHeardWithinTheProjectThatTheClientNames(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine, severalProjects: true) { live in
            let mine = try live.stream("topic=PUSH_RC&project=123456789012")
            let poll = RawClient(port: live.port)
            poll.get("/v1/poll?topic=PUSH_RC&project=demo&namespace=firebase&wait=20s")
            let others = try live.stream("topic=PUSH_RC&project=second")
            try await live.wait { $0.polls == 1 && $0.streams == 2 }
            live.publish(["secret"], in: LiveEdge.second)
            live.hub.send(DataMessage(target: .topic(.pushRC), in: LiveEdge.second.project, data: ["only": "second"]))
            try others.read(untilText: "only")
            try others.read(untilVersion: 1)
            live.publish(["welcome"])
            for client in [mine, poll] {
                try client.read(untilText: "welcome")
                #expect(!client.text.contains("second") && !client.text.contains("secret"))
            }
            #expect(!others.text.contains("welcome"))
            let presence = await live.edge.presence()
            #expect(presence.counts[LiveEdge.second.project]?[.pushRC] == [.sse: 1])
        }
    }

    @Test(arguments: [true, false])
    func withSeveralProjectsAStrangerMustNameOneAndLearnsOfNoOther(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine, severalProjects: true) { live in
            for path in ["events", "poll", "state"] {
                let (silent, wrong) = (RawClient(port: live.port), RawClient(port: live.port))
                silent.get("/v1/\(path)?topic=PUSH_RC", headers: ["Connection: close"])
                wrong.get("/v1/\(path)?topic=PUSH_RC&project=guess", headers: ["Connection: close"])
                let (answer, refusal) = (try silent.readToEnd(), try wrong.readToEnd())
                #expect(answer.hasPrefix("HTTP/1.1 400 ") && answer.contains("project="))
                #expect(refusal.hasPrefix("HTTP/1.1 404 "))
                #expect(!(answer + refusal).contains("demo") && !(answer + refusal).contains("second"))
            }
            let state = RawClient(port: live.port)
            state.get("/v1/state?topic=PUSH_RC&project=demo", headers: ["Connection: close"])
            #expect(try !state.readToEnd().contains("second"))
        }
    }

    @Test(arguments: [true, false])
    func theStateIsTheNewestHoweverSoonItIsAskedForAgain(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            let client = live.client()
            for _ in 0..<10 {
                let version = live.publish()
                for topics in ["PUSH_RC", "PUSH_RC,NEWS", "PUSH_RC"] {
                    client.get("/v1/state?topic=\(topics)")
                    let answer = try client.read { $0.text.hasSuffix("}\n") }
                    #expect(answer.contains(#""latestTemplateVersionNumber":"\#(version)""#))
                    #expect(answer.contains(#"ETag: "\#(live.hub.board.head)""#))
                    #expect(answer.contains("unknownTopics") == topics.contains("NEWS"))
                    client.forget()
                }
            }
        }
    }

    @Test(arguments: [true, false])
    func anAnswerOfTheStateHasTheHeadersOfItsOwnRequest(engine: Bool) async throws {
        let origins = ["https://a.example", "https://b.example"]
        try await LiveEdge.with(engine: engine, { $0.allowedOrigins = origins }) { live in
            live.publish()
            let (client, header) = (live.client(), "Access-Control-Allow-Origin: ")
            for origin in origins + ["https://c.example"] + origins {
                client.get("/v1/state?topic=PUSH_RC", headers: ["Origin: \(origin)"])
                let answer = try client.read { $0.text.hasSuffix("}\n") }
                #expect(answer.contains(header) == origins.contains(origin))
                #expect(answer.contains("\(header)\(origin)\r\n") == origins.contains(origin))
                client.forget()
            }
            client.get("/v1/state?topic=PUSH_RC", headers: ["Connection: close"])
            #expect(try client.readToEnd().contains("Connection: close\r\n"))
        }
    }

    @Test(arguments: [true, false])
    func anUnknownTopicAmongKnownOnesIsNamedAndTheOthersAreServed(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            live.publish()
            let stream = try live.stream("topic=NEWS&topic=PUSH_RC&have=0")
            #expect(try stream.transcript().events.map(\.type) == ["unknown-topics", "message", "synced"])
            #expect(try stream.transcript().events[required: 0].data == #"{"topics":["NEWS"]}"#)
            for (path, query) in [("poll", "&have=0"), ("poll", "&wait=20s"), ("state", "")] {
                let client = RawClient(port: live.port)
                client.get("/v1/\(path)?topic=PUSH_RC,NEWS\(query)", headers: ["Connection: close"])
                if query.contains("wait") {
                    try await live.wait { $0.polls == 1 }
                    live.publish()
                }
                #expect(try client.readToEnd().contains(#""unknownTopics":["NEWS"]"#))
            }
            let none = RawClient(port: live.port)
            none.get("/v1/events?topic=NEWS", headers: ["Connection: close"])
            #expect(try none.readToEnd().hasPrefix("HTTP/1.1 404 "))
        }
    }

    @Test(arguments: [true, false])
    func apiKeysGuardStreamsPollsAndState(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine, { $0.apiKeys = ["right"] }) { live in
            for path in ["events", "poll", "state"] {
                for key in ["", "&key=wrong"] {
                    let client = RawClient(port: live.port)
                    client.get("/v1/\(path)?topic=PUSH_RC\(key)", headers: ["Connection: close"])
                    #expect(try client.readToEnd().hasPrefix("HTTP/1.1 403 "))
                }
                let client = RawClient(port: live.port)
                client.get("/v1/\(path)?topic=PUSH_RC&wait=0&key=right", headers: ["Connection: close"])
                try client.read(untilText: "HTTP/1.1 200 ")
            }
            _ = try live.stream(headers: ["X-Goog-Api-Key: right"])
        }
    }

    /// Asks after another client was told of version 2, which the loops of Edge do not know yet.
    @Test(arguments: [true, false], ["state?", "poll?wait=20s&have=1&", "events?have=1&"])
    func whatWasAnnouncedIsSeenByEveryRequestAfterIt(engine: Bool, path: String) async throws {
        let (told, hold) = (Flag(), Flag())
        let witness = { @Sendable (event: Hub.Event) in
            guard case .announcement(let announcement) = event, announcement.change.version == 2 else { return }
            told.raise()
            hold.wait()
        }
        try await LiveEdge.with(engine: engine, witness: witness) { live in
            live.publish()
            Thread.detachNewThread { live.publish() }
            told.wait()
            let client = RawClient(port: live.port)
            client.get("/v1/\(path)topic=PUSH_RC", headers: ["Connection: close"])
            // No loop that has taken version 1 only may answer meanwhile.
            client.readSome(milliseconds: 200)
            let early = client.text
            hold.raise()
            try client.read(untilVersion: 2)
            #expect(!early.contains("\"latestTemplateVersionNumber\":\"1\"") && !early.contains("synced"))
        }
    }
}

/// Something that happens once and is waited for by threads.
final class Flag: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)

    func raise() { semaphore.signal() }

    func wait() {
        semaphore.wait()
        semaphore.signal()
    }
}

extension String {
    /// Number of times that `part` occurs.
    func components(of part: String) -> Int { ranges(of: part).count }
}
