import StalecastEdge
import StalecastHub
import StalecastTestSupport
import StalecastWire
import Testing

/// Firebase's real-time stream, read as its SDKs read it, on both halves of Edge.
@Suite(.serialized, .timeLimit(.minutes(5))) struct InvalidationTests {
    @Test(arguments: [true, false])
    func aStreamBeginsWithAnEmptyLineAndTheNewestVersionForWhoIsBehind(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            live.publish()
            live.publish()
            let behind = try live.invalidations(known: "1")
            try behind.read(untilText: "{\"latestTemplateVersionNumber\":\"2\"}\n\r\n")
            let transcript = try behind.transcript()
            #expect(transcript.head.contains("Content-Type: application/json\r\n"))
            #expect(behind.text.contains("\r\n\r\n1\r\n\n\r\n"), "the first chunk is one line end")
            let current = try live.invalidations(known: "2")
            live.publish()
            try current.read(untilText: "\"3\"}\n")
            #expect(!current.text.contains("\"2\""))
        }
    }

    @Test(arguments: [true, false])
    func aClientThatKnowsNothingIsToldAtOnce(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            live.publish()
            for body in ["{}", "{project:'123456789012', namespace:'firebase', lastKnownVersionNumber:'0'}"] {
                let client = try live.invalidations(body: body)
                try client.read(untilText: "{\"latestTemplateVersionNumber\":\"1\"}")
            }
        }
    }

    /// The JS SDK takes one object of what one read returns and drops the rest; iOS looks at each read alone.
    @Test(arguments: [true, false])
    func messagesKeepADistanceAndEndAtTheNewest(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            let client = try live.invalidations(known: "0")
            for _ in 0..<200 { live.publish() }
            try client.read(untilText: "\"200\"}\n")
            let lines = client.text.split(separator: "\n").filter { $0.hasPrefix("{") }
            #expect(lines.count <= 3, "200 publishes within a moment are one or two messages")
            #expect(Set(lines).count == lines.count, "no version twice on one connection")
        }
    }

    @Test(arguments: [true, false])
    func silentStreamsGetEmptyLinesAndNoDataMessages(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine, { $0.times.heartbeat = .milliseconds(300) }) { live in
            let client = try live.invalidations(known: "0")
            let condition = try TopicCondition(parsing: "!('pay' in topics)")
            live.hub.send(DataMessage(target: .condition(condition), in: .demo, data: ["a": "b"]))
            try client.read { $0.text.components(of: "1\r\n\n\r\n") >= 4 }
            #expect(!client.text.contains("{"))
        }
    }

    @Test func theNewestOfABurstIsSaidOnceMoreAndALoneMessageIsNot() async throws {
        let change = { (settings: inout EdgeSettings) in
            settings.times.burstEcho = .milliseconds(800)
            settings.times.heartbeat = .milliseconds(400)
        }
        try await LiveEdge.with(engine: true, change) { live in
            let client = try live.invalidations(known: "0")
            live.publish()
            try client.read(untilText: "\"1\"}\n")
            live.publish()
            try client.read { $0.text.components(of: "\"2\"}\n") == 2 }
            #expect(client.text.components(of: "\"1\"}\n") == 1, "only the newest comes again")
            try await live.wait { $0.echoes == 1 }
            live.publish()
            try client.read(untilText: "\"3\"}\n")
            let beats = client.text.components(of: "1\r\n\n\r\n")
            try client.read { $0.text.components(of: "1\r\n\n\r\n") >= beats + 4 }
            #expect(client.text.components(of: "\"3\"}\n") == 1 && live.edge.tally.echoes == 1)
        }
    }

    /// The iOS SDK gives up at 330 s, so streams end before; the body's end is no error to any SDK.
    @Test(arguments: [true, false])
    func aStreamEndsGracefullyAtTheEndOfItsLife(engine: Bool) async throws {
        #expect(EdgeSettings().times.invalidationLifetime == .seconds(300))
        try await LiveEdge.with(engine: engine, { $0.times.invalidationLifetime = .seconds(1) }) { live in
            let events = try live.stream()
            live.publish()
            let began = Clock.now()
            let client = try live.invalidations(known: "0")
            let text = try client.readToEnd()
            #expect(text.hasSuffix("{\"latestTemplateVersionNumber\":\"1\"}\n\r\n0\r\n\r\n"))
            #expect(Clock.now() - began >= 0.7, "a life is cut by a fifth at most")
            try await live.wait { $0.drops[.lifetime] == 1 && $0.streams == 1 }
            live.publish()
            try events.read(untilVersion: 2)
        }
    }

    /// Tells clients when to come back: else they would return at once, be refused, and wait for minutes.
    @Test(arguments: [true, false])
    func aDrainTellsWhenToComeBackAndTheEndOfALifeDoesNot(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            live.publish()
            let client = try live.invalidations(known: "1")
            try await live.wait { $0.streams == 1 }
            await live.edge.drain(over: .milliseconds(200))
            let last = try client.readToEnd().split(separator: "\r\n").dropLast().last ?? ""
            let object = try JSONValue.parse(Array(last.utf8))
            #expect(object["latestTemplateVersionNumber"]?.int64 == 1)
            #expect((3...10).contains(object["retryIntervalSeconds"]?.int64 ?? 0))
            #expect(client.text.hasSuffix("0\r\n\r\n"))
        }
    }

    /// Forty are told over four seconds; some leave before their turn, one comes back, the next version takes over.
    @Test func aPacedFanOutKeepsItsCounts() async throws {
        try await LiveEdge.with(engine: true, herdBudget: 10, { $0.times.heartbeat = .milliseconds(300) }) { live in
            var clients = try (0..<40).map { _ in try live.invalidations(known: "0") }
            try await eventually { live.hub.herd(of: LiveEdge.scope)?.pacedOverMs == 4000 }
            live.publish()
            try await live.wait { ($0.deliveries[.firebase] ?? 0) >= 5 }
            for client in clients { client.readSome(milliseconds: 0) }
            let waiting = clients.filter { !$0.text.contains("{") }
            // Every third one, so that not all of these have their turn before their end is seen.
            let leaving = stride(from: 0, to: waiting.count, by: 3).map { waiting[$0] }
            try #require(leaving.count > 1, "they have heartbeats, and no message")
            for client in leaving { client.close() }
            clients.removeAll { client in leaving.contains { $0 === client } }
            let again = try live.invalidations(known: "0")
            try again.read(untilText: "\"1\"}\n")
            try await live.wait { $0.streams == clients.count + 1 }
            // On a busy machine the turn of some comes before their end is seen.
            #expect((1...leaving.count).contains(await live.edge.streamCounts(of: LiveEdge.scope).left))
            let problems = await live.edge.inconsistencies()
            #expect(problems == [] || problems.allSatisfy { !$0.contains("without a turn") })
            live.publish()
            for client in clients + [again] { try client.read(untilText: "\"2\"}\n") }
            for client in clients { #expect(client.text.components(of: "\"1\"}") <= 1) }
            let streamCounts = await live.edge.streamCounts(of: LiveEdge.scope)
            #expect((streamCounts.streams, streamCounts.backlogged, streamCounts.left) == (clients.count + 1, 0, 0))
        }
    }

    @Test func aPromotedStreamIsTheEngines() async throws {
        try await LiveEdge.with(engine: true) { live in
            let client = try live.invalidations(known: "0")
            try await live.wait { $0.streams == 1 && $0.handedOver == 1 }
            #expect(await live.edge.presence().count(.ofScope(LiveEdge.scope), .firebase) == 1)
            live.publish()
            try client.read(untilText: "\"1\"}\n")
            try await live.wait { $0.deliveries[.firebase] == 1 }
        }
    }

    @Test(arguments: [true, false])
    func overTheCapTheDelayComesWithTheVersion(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine, { $0.caps.connections = 1 }) { live in
            live.publish()
            let held = try live.stream()
            let refused = RawClient(port: live.port)
            refused.postInvalidations("{}")
            let answer = try refused.readToEnd()
            #expect(answer.contains("{\"latestTemplateVersionNumber\":\"1\",\"retryIntervalSeconds\":"))
            #expect(answer.hasSuffix("0\r\n\r\n"))
            live.publish()
            try held.read(untilVersion: 2)
        }
    }
}

extension RawClient {
    func postInvalidations(_ body: String, project: String = "demo") {
        send(
            "POST /v1/projects/\(project)/namespaces/firebase:streamFetchInvalidations?key=k HTTP/1.1\r\nHost: x\r\n"
                + "Content-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
                + body)
    }
}

extension LiveEdge {
    /// An open invalidation stream, by the project's number as iOS and Android ask.
    func invalidations(known: String) throws -> RawClient {
        try invalidations(body: "{\"lastKnownVersionNumber\":\"\(known)\",\"namespace\":\"firebase\"}")
    }

    func invalidations(body: String) throws -> RawClient {
        let client = RawClient(port: port)
        client.postInvalidations(body, project: "123456789012")
        try client.read(untilText: "\r\n\r\n1\r\n\n\r\n")
        return client
    }
}
