import Glibc
import StalecastEdge
import StalecastHTTP
import StalecastHub
import StalecastWire
import Testing

/// Streams and polls over TLS that the engine has taken from the Front.
@Suite(.serialized, .timeLimit(.minutes(5))) struct TLSStreamTests {
    private func with(
        threads: Int = 1, _ change: (inout EdgeSettings) -> Void = { _ in }, _ body: (LiveEdge) async throws -> Void
    ) async throws {
        try await LiveEdge.with(engine: true, tls: TLSServer(.development()), threads: threads, change, body)
    }

    @Test(arguments: [false, true])
    func aStreamMovesIntoTheEngine(isOld: Bool) async throws {
        try await with(threads: 2) { live in
            let client = RawClient(port: live.port, tls: TLSWire(isOld: isOld))
            client.get("/v1/events?topic=PUSH_RC")
            try client.read(untilText: "event: synced")
            try await live.wait { _ in live.edge.engineSubscribers == 1 }
            for _ in 0..<10 { try client.read(untilVersion: live.publish()) }
            try client.read { $0.text.hasSuffix("\n\n\r\n") }
            #expect(try client.transcript().versions == Array(1...10))
            try await live.wait { $0.takenOver == (isOld ? 0 : 1) }
            client.close()
            try await live.wait { $0.streams == 0 && $0.drops[.peerClosed] == 1 }
        }
    }

    @Test func everyShapeOfStreamIsWrittenWhole() async throws {
        try await with { live in
            let clients = [
                try live.stream("topic=PUSH_RC&topic=pay"), try live.stream(version: "1.0"),
                try live.stream("topic=PUSH_RC&topic=nothing"),
            ]
            try await live.wait { _ in live.edge.engineSubscribers == 3 }
            for client in clients { try client.read(untilVersion: live.publish(["pay_now"])) }
            for client in clients { try client.read(untilVersion: 3) }
            #expect(live.edge.tally.drops.isEmpty)
            withExtendedLifetime(clients) {}
        }
    }

    @Test func aRecordThatWasBegunIsFinishedBeforeTheNewestFollows() async throws {
        try await with { live in
            let client = try live.stream(receiveBuffer: 2048)
            let healthy = try live.stream()
            for _ in 0..<3 {
                let last = try live.publish(400, readBy: healthy)
                try await live.wait { $0.stalled >= 1 }
                try client.read(untilVersion: last)
                try client.read { $0.text.hasSuffix("\n\n\r\n") }
                let versions = try client.transcript().versions
                #expect(versions == Array(Set(versions)).sorted())
                #expect(versions.last == last)
                try await live.wait { $0.stalled == 0 }
            }
            #expect(try client.transcript().versions.count < 1200, "a stalled reader must have skipped some")
            #expect(client.tls?.isBroken == false)
            #expect(live.edge.tally.drops.isEmpty)
            withExtendedLifetime([client, healthy]) {}
        }
    }

    @Test func aMessageOfAnotherLengthDoesNotTakeTheBegunOnesPlace() async throws {
        try await with { live in
            let client = try live.stream(receiveBuffer: 2048)
            let healthy = try live.stream()
            // Long and short in turn: the message that waits never has the length of the begun one.
            for round in 0..<400 {
                let keys = (0..<(round % 2 == 0 ? 40 : 1)).map { "key_\($0)_with_a_long_name" }
                try healthy.read(untilVersion: live.publish(keys))
                healthy.forget()
            }
            try await live.wait { $0.stalled >= 1 }
            try client.read(untilVersion: 400)
            try client.read { $0.text.hasSuffix("\n\n\r\n") }
            let versions = try client.transcript().versions
            #expect(versions == Array(Set(versions)).sorted() && versions.last == 400)
            try client.read(untilVersion: live.publish())
        }
    }

    @Test func aStalledReaderIsClosedAtTheLimitInTheMiddleOfARecord() async throws {
        try await with({ $0.connections.writeStallLimit = .milliseconds(400) }) { live in
            let client = try live.stream(receiveBuffer: 2048)
            try live.publish(400, readBy: try live.stream())
            try await live.wait { $0.drops[.writeStall] == 1 && $0.streams <= 1 }
            while !client.isEnded { client.readSome(milliseconds: 200) }
            #expect(client.tls?.isGoodbye == false, "what breaks off is not said to be whole")
            let again = try live.stream("topic=PUSH_RC&have=1")
            #expect(try again.transcript().versions == [400])
        }
    }

    /// A record costs us much more than its client.
    @Test(arguments: [false, true]) func aClientThatNeverStopsToSpeakIsEnded(isOld: Bool) async throws {
        try await with { live in
            let client = RawClient(port: live.port, tls: TLSWire(isOld: isOld))
            client.get("/v1/events?topic=PUSH_RC")
            try client.read(untilText: "event: synced")
            try await live.wait { _ in live.edge.engineSubscribers == 1 }
            for _ in 0..<64 { client.send("x") }
            try client.read(untilVersion: live.publish())
            #expect(live.edge.engineSubscribers == 1)
            for _ in 0..<65 { client.send("x") }
            try await live.wait { $0.streams == 0 && $0.drops[.peerClosed] == 1 }
        }
    }

    @Test func newKeysAreTakenAndGiven() async throws {
        try await with { live in
            let client = try live.stream()
            // More than BoringSSL takes in a row.
            for _ in 0..<50 {
                client.tls?.updateKeys()
                try client.read(untilVersion: live.publish())
            }
            try client.read { $0.text.hasSuffix("\n\n\r\n") }
            #expect(try client.transcript().versions == Array(1...50))
        }
    }

    @Test func keysThatChangedBeforeTheStreamBeganAreTheOnesItHas() async throws {
        try await with { live in
            let client = live.client()
            client.tls?.updateKeys(Array("GET /v1/state?topic=PUSH_RC HTTP/1.1\r\nHost: a\r\n\r\n".utf8))
            try client.read(untilText: "PUSH_RC")
            client.tls?.updateKeys(Array("GET /v1/events?topic=PUSH_RC HTTP/1.1\r\nHost: a\r\n\r\n".utf8))
            try client.read(untilText: "event: synced")
            try await live.wait { $0.takenOver == 1 }
            for _ in 0..<3 {
                try client.read(untilVersion: live.publish())
                client.tls?.updateKeys()
            }
        }
    }

    @Test func aRecordThatCameInPartWhenItsStreamBeganIsReadToItsEnd() async throws {
        try await with { live in
            let client = live.client()
            let tls = try #require(client.tls)
            let text = "GET /v1/events?topic=PUSH_RC HTTP/1.1\r\nHost: a\r\n\r\n"
            let request = tls.seal(Array(text.utf8), over: client.fd)
            let more = tls.seal([0x41], over: client.fd)
            client.sendRaw(request + more.prefix(9))
            try client.read(untilText: "event: synced")
            #expect(live.edge.tally.takenOver == 0, "BoringSSL has a part of it")
            try client.read(untilVersion: live.publish())
            client.sendRaw(Array(more.dropFirst(9)))
            tls.updateKeys()
            try client.read(untilVersion: live.publish())
            #expect(live.edge.tally.drops.isEmpty)
        }
    }

    @Test func whatAClientSaysOnAStreamIsThrownAway() async throws {
        try await with { live in
            let client = try live.stream()
            for _ in 0..<100 {
                client.send(Array(repeating: 0x41, count: 5000))
                try client.read(untilVersion: live.publish())
            }
        }
    }

    @Test func aClientThatSaysGoodbyeIsGone() async throws {
        try await with { live in
            let (stream, poll) = (try live.stream(), live.client())
            poll.get("/v1/poll?topic=PUSH_RC&wait=50s&cursor=\(live.cursor(0))")
            try await live.wait { _ in live.edge.engineSubscribers == 2 }
            stream.tls?.sayGoodbye()
            try await live.wait { $0.streams == 0 }
            shutdown(poll.fd, Int32(SHUT_WR))
            try await live.wait { $0.polls == 0 && $0.drops[.peerClosed] == 2 }
        }
    }

    @Test func aRecordThatCannotBeOpenedEndsItsStreamAndNoOther() async throws {
        try await with { live in
            let (broken, healthy) = (try live.stream(), try live.stream())
            broken.sendRaw([0x17, 3, 3, 0, 32] + Array(repeating: 7, count: 32))
            try await live.wait { $0.streams == 1 }
            while !broken.isEnded { broken.readSome(milliseconds: 200) }
            #expect(broken.tls?.isBroken == true, "the alert says why")
            try healthy.read(untilVersion: live.publish())
        }
    }

    @Test func clientsThatResetDuringAFanOutHarmNoOtherClient() async throws {
        try await with(threads: 2) { live in
            let healthy = try live.stream()
            for _ in 0..<20 {
                let others = try (0..<10).map { _ in try live.stream() }
                live.publish()
                for client in others { client.reset() }
                try healthy.read(untilVersion: live.publish())
            }
            try await live.wait { $0.streams == 1 }
            withExtendedLifetime(healthy) {}
        }
    }

    @Test func aCleanEndIsSaid() async throws {
        try await with({ $0.times.streamLifetime = .milliseconds(300) }) { live in
            let client = try live.stream()
            let text = try client.readToEnd()
            #expect(text.hasSuffix("0\r\n\r\n") && client.tls?.isGoodbye == true)
            let poll = live.client()
            poll.get("/v1/poll?topic=PUSH_RC&wait=0s", headers: ["Connection: close"])
            #expect(try poll.readToEnd().hasPrefix("HTTP/1.1 200 ") && poll.tls?.isGoodbye == true)
        }
        try await with { live in
            let clients = try (0..<20).map { _ in try live.stream() }
            await live.edge.drain(over: .milliseconds(200))
            for client in clients {
                #expect(try client.readToEnd().contains("retry: "))
                #expect(client.tls?.isGoodbye == true)
            }
        }
    }

    @Test func aConnectionGoesBetweenTheHalvesAsItsRequestsAsk() async throws {
        try await with { live in
            let client = live.client()
            func next(_ words: String) throws {
                try client.read(untilText: words)
                client.forget()
            }
            for _ in 0..<5 {
                client.get("/v1/poll?topic=PUSH_RC&wait=50s&cursor=\(live.cursor(live.hub.board.headSequence))")
                try await live.wait { _ in live.edge.engineSubscribers == 1 }
                let version = live.publish()
                try next("\"latestTemplateVersionNumber\":\"\(version)\"")
                // A poll that the engine recognises itself, in its own record.
                client.get("/v1/poll?topic=PUSH_RC&wait=0s&cursor=\(live.cursor(live.hub.board.headSequence))")
                try next("\"messages\":[]")
                client.get("/healthz")
                try next("ok\n")
            }
            // Once in the Front, once in the engine, for each round.
            try await live.wait { $0.handedOver == 6 }
            client.get("/v1/events?topic=PUSH_RC")
            try client.read(untilText: "event: synced")
            try client.read(untilVersion: live.publish())
            try await live.wait { _ in live.edge.engineSubscribers == 1 }
            withExtendedLifetime(client) {}
        }
    }

    @Test func aRequestInPiecesIsServedAllTheSame() async throws {
        try await with { live in
            let client = live.client()
            for _ in 0..<3 {
                for piece in ["GET /v1/poll?topic=PUSH_RC&wait=0s HTTP/1.1\r\n", "Host: localhost\r\n", "\r\n"] {
                    client.send(piece)
                }
                try client.read(untilText: "\"messages\":[]")
                client.forget()
            }
        }
    }

    @Test func requestsThatComeTogetherAreAllAnswered() async throws {
        try await with { live in
            let client = live.client()
            // The first brings the connection into the engine; then each is a record.
            for _ in 0..<300 { client.get("/v1/poll?topic=PUSH_RC&wait=0s") }
            try client.read { $0.text.split(separator: "HTTP/1.1 200 ").count == 300 && $0.text.hasSuffix("]}\n") }
            client.get("/v1/poll?topic=PUSH_RC&wait=0s")
            client.tls?.sayGoodbye()
            shutdown(client.fd, Int32(SHUT_WR))
            _ = try client.readToEnd()
        }
    }

    @Test func streamsOutliveTheirCertificate() async throws {
        let server = try TLSServer(.development())
        try await LiveEdge.with(engine: true, tls: server, threads: 2) { live in
            let clients = try (0..<50).map { _ in try live.stream() }
            try server.replace(.development())
            let later = try live.stream()
            #expect(later.tls?.certificate != clients[0].tls?.certificate)
            let version = live.publish()
            for client in clients + [later] { try client.read(untilVersion: version) }
            for client in clients { client.tls?.updateKeys() }
            let next = live.publish()
            for client in clients { try client.read(untilVersion: next) }
            try await live.wait { $0.drops.isEmpty && live.edge.engineSubscribers == 51 }
            // A client without a reference closes its connection: keeps all until here.
            withExtendedLifetime(clients + [later]) {}
        }
    }

    @Test func aFullEdgeRefusesOverTLSToo() async throws {
        try await with({ $0.caps.connections = 1 }) { live in
            let first = try live.stream()
            let second = live.client()
            second.get("/v1/events?topic=PUSH_RC")
            #expect(try second.readToEnd().contains("retry: ") && second.tls?.isGoodbye == true)
            try first.read(untilVersion: live.publish())
        }
    }
}
