import StalecastEdge
import StalecastHub
import StalecastWire
import Testing

/// Tests the connection caps on both halves of Edge.
@Suite(.serialized, .timeLimit(.minutes(5))) struct CapacityTests {
    @Test(arguments: [true, false])
    func aRefusedStreamIsToldWhenToComeBack(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine, { $0.caps.connections = 3 }) { live in
            let held = try (0..<3).map { _ in try live.stream() }
            let refused = RawClient(port: live.port)
            refused.get("/v1/events?topic=PUSH_RC")
            _ = try refused.readToEnd()
            let transcript = try refused.transcript()
            #expect(transcript.head.hasPrefix("HTTP/1.1 200 OK"))
            #expect(transcript.isEnded && transcript.events.isEmpty)
            guard case .retry = transcript.outputs.first else { return #expect(Bool(false), "no retry") }
            live.publish()
            for client in held { try client.read(untilVersion: 1) }
        }
    }

    @Test(arguments: [true, false])
    func aRefusedPollGets503WithRetryAfter(engine: Bool) async throws {
        try await LiveEdge.with(engine: engine, { $0.caps.connectionsPerAddress = 1 }) { live in
            let held = try live.stream()
            for target in ["/v1/poll?topic=PUSH_RC", "/healthz"] {
                let refused = RawClient(port: live.port)
                refused.get(target)
                let answer = try refused.readToEnd()
                #expect(answer.hasPrefix("HTTP/1.1 503"))
                #expect(answer.contains("\r\nRetry-After: "))
            }
            held.close()
            try await live.wait { $0.drops[.peerClosed] == 1 && live.edge.connections == 0 }
            _ = try live.stream()
        }
    }

    /// Opens connections that say nothing, or begin a request that goes to the Front and does not end.
    @Test(arguments: [true, false], ["", "GET /v1/events?topic=PUSH_RC HTTP/1.1\r\n"])
    func connectionsThatAskNothingMakeRoom(engine: Bool, said: String) async throws {
        try await LiveEdge.with(
            engine: engine, threads: 1,
            {
                $0.caps.connections = 8
                $0.caps.silence = .milliseconds(1)
            }
        ) { live in
            let held = try live.stream()
            let silent = (0..<20).map { _ in RawClient(port: live.port) }
            for client in silent { client.send(said) }
            for _ in 0..<4 {
                // It may be told to come back once: room in the Front is made soon.
                let client = try await live.streamInTheEnd()
                client.close()
            }
            live.publish()
            try held.read(untilVersion: 1)
            withExtendedLifetime(silent) {}
        }
    }

    @Test func beyondTheHeadroomConnectionsWaitWithoutSpinning() async throws {
        try await LiveEdge.with(
            engine: true, threads: 1,
            {
                $0.caps.connections = 1
                $0.caps.silence = .seconds(3600)
            }
        ) { live in
            let held = try live.stream()
            // The headroom for refusals is filled with silent connections; the next ones stay in the kernel's queue.
            let silent = (0..<24).map { _ in RawClient(port: live.port) }
            try await live.wait { $0.accepted == 25 }
            let waiting = RawClient(port: live.port)
            waiting.get("/v1/events?topic=PUSH_RC")
            waiting.readSome(milliseconds: 300)
            #expect(waiting.received.isEmpty)
            #expect(live.edge.tally.accepted == 25)
            live.publish()
            try held.read(untilVersion: 1)
            for client in silent { client.close() }
            _ = try waiting.readToEnd()
            #expect(waiting.text.contains("retry: "))
        }
    }
}

extension LiveEdge {
    /// Opens a stream, which is asked for up to 200 times: each refused request makes room for the next.
    fileprivate func streamInTheEnd() async throws -> RawClient {
        for _ in 0..<200 {
            let client = RawClient(port: port)
            client.get("/v1/events?topic=PUSH_RC")
            try client.read { $0.isEnded || $0.text.contains("event: synced") || $0.text.contains("0\r\n\r\n") }
            if client.text.contains("event: synced") { return client }
            try await Task.sleep(for: .milliseconds(20))
        }
        throw NeverLetIn(description: "it was never let in, in 200 tries")
    }
}

private struct NeverLetIn: Error, CustomStringConvertible { let description: String }
