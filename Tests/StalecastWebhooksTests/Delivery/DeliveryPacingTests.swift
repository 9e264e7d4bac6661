import StalecastOutbound
import StalecastTestServers
import StalecastTestSupport
import StalecastWebhooks
import StalecastWire
import Testing

@Suite struct DeliveryPacingTests {
    @Test func aRateIsKept() async throws {
        try await OriginServer.serving({ _ in .status(200) }) { server in
            let webhook = try DeliveryFixture.webhook(
                server.url, mode: .fifo(onExhaustion: .block), limits: WebhookLimits(maxPerSecond: 10))
            try await DeliveryFixture().run([webhook]) { fixture in
                try fixture.publish(16)
                try await eventually { try await fixture.isDone(webhook) }
                let starts = try fixture.attempts(webhook).map(\.startedAt.microseconds)
                #expect(starts.count == 16)
                // Ten at once are allowed, the six after them take a tenth of a second each.
                #expect(try #require(starts.max()) - (try #require(starts.min())) >= 590_000)
            }
        }
    }

    @Test func anIntervalLiesBetweenTheStartsOfDeliveries() async throws {
        try await OriginServer.serving({ _ in .status(204) }) { server in
            let interval = Duration.milliseconds(200)
            let webhook = try DeliveryFixture.webhook(server.url, limits: WebhookLimits(minInterval: interval))
            try await DeliveryFixture().run([webhook]) { fixture in
                for _ in 0..<50 {
                    try fixture.publish()
                    await Task.yield()
                }
                try await eventually { try await fixture.isDone(webhook) }
                try fixture.publish()
                try await eventually { try await fixture.isDone(webhook) }
                let starts = try fixture.attempts(webhook).map(\.startedAt.microseconds)
                #expect(starts.count >= 2 && server.versions.last == 51)
                // The wall clock that attempts are dated with may be a little off the one that is waited by.
                #expect(zip(starts.dropFirst(), starts).allSatisfy { $0 - $1 >= 195_000 })
            }
        }
    }

    /// Gives the engine six times the places that delivery is configured for, as the daemon does.
    @Test func slowOnesDoNotTakeTheEnginesPlacesEither() async throws {
        let port = try SilentPort.shared.port
        let limits = WebhookLimits(timeout: .seconds(30))
        let holes = try (0..<30).map {
            try DeliveryFixture.webhook("http://127.0.0.1:\(port)/\($0)", limits: limits)
        }
        try await OriginServer.serving({ _ in .status(204) }) { server in
            let healthy = try DeliveryFixture.webhook("\(server.url)/healthy")
            let outbound = OutboundConfiguration(maxInFlight: 6 * 8)
            let fixture = try DeliveryFixture(outbound: outbound) { $0.maxInFlight = 8 }
            try await fixture.run(holes + [healthy]) { fixture in
                try fixture.publish()
                try await eventually { server.versions(at: "/healthy") == [1] }
                // As many as delivery may have under way never answer.
                try await eventually { try await fixture.delivery.tally().underWay["slow"] ?? 0 >= 8 }
                try fixture.publish()
                try await eventually { server.versions(at: "/healthy") == [1, 2] }
                #expect(try fixture.attempts(holes[0]).isEmpty, "the silent ones still have their time")
            }
        }
    }

    @Test func deliveryGoesOnWhileItsDatabaseCannotBeWritten() async throws {
        try await OriginServer.serving({ _ in .status(200) }) { server in
            let webhook = try DeliveryFixture.webhook(server.url)
            let stage = try DeliveryFixture()
            try await stage.run([webhook]) { fixture in
                try fixture.publish()
                try await eventually { try fixture.attempts(webhook).count == 1 }
                let lock = try DatabaseLock(stage.databasePath)
                try fixture.publish()
                try await eventually { server.versions == [1, 2] }
                try await eventually { try fixture.delivery.failure != nil }
                try fixture.publish()
                try await eventually { server.versions == [1, 2, 3] }
                lock.release()
                try await eventually { try fixture.delivery.failure == nil }
                #expect(try fixture.attempts(webhook).map(\.version) == [1, 2, 3])
            }
            try await stage.run([webhook]) { fixture in
                try fixture.publish()
                try await eventually { try await fixture.isDone(webhook) }
            }
            #expect(server.versions == [1, 2, 3, 4])
        }
    }
}
