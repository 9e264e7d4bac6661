import Glibc
import StalecastEdge
import StalecastHTTP
import StalecastHub
import StalecastWire
import Testing

/// Tests what goes wrong with descriptors, on both halves of Edge where both can meet it.
@Suite(.serialized, .timeLimit(.minutes(5))) struct HazardTests {
    @Test(arguments: [true, false])
    func aReusedDescriptorNumberGetsNothingOfItsFormerClient(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine, threads: 1) { live in
            for round in 1...100 {
                let first = try live.stream("topic=server")
                first.close()
                let second = try live.stream("topic=PUSH_RC")
                live.publish(in: LiveEdge.other)
                live.publish()
                try second.read(untilVersion: VersionNumber(clamping: round))
                #expect(!second.text.contains("firebase-server"), "round \(round)")
                second.close()
            }
            try await live.wait { $0.streams == 0 && $0.drops[.peerClosed] == 200 }
        }
    }

    @Test(arguments: [true, false])
    func aShortWriteInTheMiddleOfAnEventIsContinuedAndTheNewestFollows(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine, threads: 1) { live in
            let client = try live.stream(receiveBuffer: 2048)
            let healthy = try live.stream()
            let last = try live.publish(400, readBy: healthy)
            try await live.wait { $0.stalled >= 1 }
            try client.read(untilVersion: last)
            try client.read { $0.text.hasSuffix("\n\n\r\n") }
            let versions = try client.transcript().versions
            #expect(versions == Array(Set(versions)).sorted())
            #expect(versions.last == last)
            #expect(versions.count < 400, "a stalled reader must have skipped some")
            try await live.wait { $0.stalled == 0 && $0.coalesced > 0 }
            let next = live.publish()
            try client.read(untilVersion: next)
            // Both are in one batch: what one did not take is not given to the other.
            try healthy.read(untilVersion: next)
            let whole = try healthy.transcript().versions
            #expect(whole == Array(Set(whole)).sorted())
        }
    }

    @Test(arguments: [true, false])
    func aCoalescedMessageNamesTheVersionBeforeTheStall(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine, threads: 1) { live in
            let client = try live.stream(receiveBuffer: 2048)
            let last = try live.publish(400, readBy: try live.stream())
            try await live.wait { $0.stalled >= 1 }
            try client.read(untilVersion: last)
            try client.read { $0.text.hasSuffix("\n\n\r\n") }
            var held: VersionNumber = 0
            for event in try client.transcript().events where event.type == "message" {
                let message = try JSONValue.parse(event.data.utf8)
                if let since = message["sinceTemplateVersionNumber"]?.versionNumber { #expect(since <= held) }
                held = message["latestTemplateVersionNumber"]?.versionNumber ?? 0
            }
            #expect(held == last)
        }
    }

    @Test(arguments: [true, false])
    func aStalledReaderIsClosedAtTheLimitAndResumesWithoutLoss(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine, threads: 1, { $0.connections.writeStallLimit = .milliseconds(400) }) {
            live in
            let client = try live.stream(receiveBuffer: 2048)
            let healthy = try live.stream()
            try live.publish(400, readBy: healthy)
            try await live.wait { $0.drops[.writeStall] == 1 && $0.streams <= 1 }
            // What the kernel still held arrives; whole events only count.
            while !client.isEnded { client.readSome(milliseconds: 200) }
            let id = try client.transcript().events.last?.lastEventID ?? ""
            let again = try live.stream(headers: ["Last-Event-ID: \(id)"])
            #expect(try again.transcript().versions == [400])
        }
    }

    @Test(arguments: [true, false])
    func clientsThatResetDuringAFanOutHarmNoOtherClient(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            let healthy = try (0..<20).map { _ in try live.stream() }
            var last: VersionNumber = 0
            for _ in 0..<30 {
                let doomed = try (0..<20).map { _ in try live.stream() }
                async let published: Void = {
                    for _ in 0..<20 { live.publish() }
                }()
                for client in doomed { client.reset() }
                await published
                last = live.publish()
            }
            for client in healthy {
                try client.read(untilVersion: last)
                try client.read { $0.text.hasSuffix("\n\n\r\n") }
                let versions = try client.transcript().versions
                #expect(versions == Array(Set(versions)).sorted())
            }
            try await live.wait { $0.streams == 20 }
            #expect(live.edge.connections == healthy.count)
        }
    }

    /// `TE` is more than the recogniser knows, so the Front reads the request and gives the stream to the engine.
    @Test func aPromotionLosesNothingWhileAPublishRuns() async throws {
        try await LiveEdge.with(engine: true) { live in
            for round in 1...200 {
                let client = RawClient(port: live.port)
                async let published: VersionNumber = live.publish()
                client.get("/v1/events?topic=PUSH_RC&have=\(round - 1)", headers: ["TE: trailers"])
                let version = await published
                try client.read(untilVersion: version)
                #expect(try client.transcript().versions == [version], "round \(round)")
            }
            try await live.wait { $0.handedOver == 200 && $0.drops[.peerClosed] == 200 && live.edge.connections == 0 }
        }
    }

    @Test(arguments: [true, false])
    func aHeadReceivedInHalvesIsServed(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            let client = RawClient(port: live.port)
            for part in ["GE", "T /v1/events?topic=PU", "SH_RC HTTP/1.1\r\nHo", "st: x\r\n\r", "\n"] {
                client.send(part)
                try await Task.sleep(for: .milliseconds(20))
            }
            try client.read(untilText: "event: synced")
            live.publish()
            try client.read(untilVersion: 1)
        }
    }

    @Test(arguments: [true, false])
    func aSlowHeadIsClosedAtTheDeadline(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine, { $0.connections.headTimeout = .milliseconds(400) }) { live in
            let silent = RawClient(port: live.port)
            let slow = RawClient(port: live.port)
            slow.send("GET /v1/events?topic=PUSH_RC HTTP/1.1\r\nHost: x\r\n")
            _ = try silent.readToEnd()
            _ = try slow.readToEnd()
            #expect(!slow.text.contains("200"))
            try await live.wait { $0.drops[.headerTimeout] == 2 }
        }
    }

    @Test(arguments: [true, false])
    func pipelinedPollsAreAnsweredInOrder(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            let client = RawClient(port: live.port)
            let poll = "GET /v1/poll?topic=PUSH_RC&wait=20s HTTP/1.1\r\nHost: x\r\n\r\n"
            client.send(poll + poll + poll)
            try await live.wait { $0.polls == 1 }
            for version in 1...3 as ClosedRange<VersionNumber> {
                live.publish()
                try client.read(untilVersion: version)
                if version < 3 {
                    try await live.wait { $0.polls == 1 && $0.deliveries[.poll] == Int(version.rawValue) }
                }
            }
            #expect(client.text.components(of: "HTTP/1.1 200 OK") == 3)
        }
    }

    @Test(arguments: [true, false])
    func heldPollsOfManyAllowedOriginsMayBeReadByTheirPages(engine: Bool) async throws {
        let origins = (0..<300).map { "https://page\($0).example" }
        try await LiveEdge.with(engine: engine, threads: 1, { $0.allowedOrigins = origins }) { live in
            let clients = origins.map { origin in
                let client = RawClient(port: live.port)
                client.get("/v1/poll?topic=PUSH_RC&wait=60s", headers: ["Origin: \(origin)"])
                return client
            }
            try await live.wait { $0.polls == origins.count }
            live.publish()
            for (client, origin) in zip(clients, origins) {
                try client.read(untilVersion: 1)
                #expect(client.text.contains("\r\nAccess-Control-Allow-Origin: \(origin)\r\n"))
            }
        }
    }

    @Test(arguments: [true, false])
    func aRequestSentWhileAPollIsHeldIsServedAfterIt(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            let client = RawClient(port: live.port)
            client.get("/v1/poll?topic=PUSH_RC&wait=20s")
            try await live.wait { $0.polls == 1 }
            client.get("/healthz")
            live.publish()
            try client.read(untilText: "ok\n")
            let message = try #require(client.text.ranges(of: "latestTemplateVersionNumber").first)
            let health = try #require(client.text.ranges(of: "text/plain").first)
            #expect(message.lowerBound < health.lowerBound)
        }
    }

    @Test(arguments: [true, false])
    func manyPollsOnOneConnectionCostOneDescriptor(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine) { live in
            let client = RawClient(port: live.port)
            for version in 1...50 as ClosedRange<VersionNumber> {
                client.get("/v1/poll?topic=PUSH_RC&wait=20s&cursor=\(live.cursor(UInt64(version.rawValue - 1)))")
                live.publish()
                try client.read(untilVersion: version)
                try client.read(untilText: "]}\n")
                client.forget()
            }
            #expect(live.edge.tally.accepted == 1)
        }
    }
}

extension LiveEdge {
    /// Publishes so many versions with large messages, each after a healthy reader had the one before: so none is
    /// coalesced on the way to the shard, and a reader that does not read must stall.
    @discardableResult
    func publish(_ count: Int, readBy healthy: RawClient) throws -> VersionNumber {
        var last: VersionNumber = 0
        for number in 0..<count {
            last = publish((0..<50).map { "key_\(number)_with_a_long_name_\($0)" })
            try healthy.read(untilVersion: last)
            healthy.forget()
        }
        return last
    }
}

/// Answers that do not fit into a socket at once, and clients that do not read them.
@Suite(.serialized, .timeLimit(.minutes(5))) struct LargeAnswerTests {
    private func large(_ live: LiveEdge) {
        live.publish((0..<60).map { "a_parameter_with_a_long_name_\($0)" })
    }

    @Test(arguments: [true, false])
    func aPollsAnswerBeyondTheSocketsBufferArrivesWhole(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine, manyTopics: 60) { live in
            large(live)
            let topics = (0..<60).map { "t\($0)" }.joined(separator: ",")
            for headers in [[], ["Connection: close"]] {
                let client = RawClient(port: live.port, receiveBuffer: 2048)
                client.get("/v1/poll?topic=\(topics)&have=0", headers: headers)
                try client.read(untilText: "]}\n")
                let parts = client.text.split(separator: "\r\n\r\n", maxSplits: 1)
                #expect(parts[0].contains("Content-Length: \(parts[1].utf8.count)"))
                #expect(parts[1].utf8.count > 100_000)
            }
        }
    }

    @Test(arguments: [true, false])
    func pipelinedRequestsWithUnreadAnswersAreNotServedForEver(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine, { $0.connections.writeStallLimit = .milliseconds(500) }) { live in
            let client = RawClient(port: live.port, receiveBuffer: 2048)
            let request = "GET /v1/state?topic=PUSH_RC HTTP/1.1\r\nHost: x\r\n\r\n"
            client.sendSome(String(repeating: request, count: 20_000))
            try await live.wait { $0.accepted == 1 && live.edge.connections == 0 }
            #expect(!client.isEnded, "nothing was read, so the end came from Edge")
        }
    }
}

extension RawClient {
    /// Sends what the socket takes, without waiting for more room.
    func sendSome(_ text: String) {
        let bytes = Array(text.utf8)
        _ = Glibc.send(fd, bytes, bytes.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
    }
}
